// What `inspect` finds out about a model without computing with it: sizes, memory at a context, whether it
// fits here, what would draft. Thread: any. Cost: load_model. Errors: those of load_model.
#pragma once

#include <string>
#include <vector>

#include "cli/machine.h"
#include "cli/prepared_folder.h"
#include "models/model.h"

namespace ft::cli {

struct Inspection {
  std::string directory, name, family, quantisation;
  std::int64_t parameters = 0, file_bytes = 0;
  std::int64_t step_bytes = 0;  // weights read for one token
  int layers = 0, full_attention_layers = 0, hidden = 0, vocabulary = 0;
  int draft_bits = 0;         // that some of the head's matrices are requantised to; 0: all stay as stored
  int draft_vocabulary = 0;   // tokens that the head drafts among at a time, unless a flag says otherwise
  std::string drafted_among;  // the same in words
  int heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  bool tied = false;
  std::int64_t max_context = 0, context = 0;  // tokens; context: what memory is counted for
  std::int64_t weight_bytes = 0, state_bytes = 0;
  std::int64_t memory_needed = 0, memory_available = 0;  // bytes
  std::string verdict;                                   // "fits", "tight", "does not fit"
  std::string head_state, head_sentence, head_file;
  std::string drafter;  // what `auto` would draft with
  std::string program;  // the list, if asked for
  PreparedFiles prepared;
};

/// `kv_bits`: of a cached key or value, 16 or 8.
Inspection inspect(const Model& model, const Machine& machine, std::int64_t context, int kv_bits,
                   bool with_program);

}  // namespace ft::cli
