// The findings of `inspect` about a model, without running it: sizes, memory at a context, whether it fits,
// and its drafter.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/packed_weights_folder.h"
#include "lab/machine.h"
#include "models/model.h"

namespace ft::cli {

struct Inspection {
  std::string directory, name, family, quantisation;
  std::int64_t parameters = 0, active_parameters = 0, file_bytes = 0;
  int experts = 0, experts_per_token = 0, expert_size = 0;  // 0: dense
  std::int64_t step_bytes = 0, held_bytes = 0;         // weights read for one token, and with all experts
  std::int64_t tower_parameters = 0, tower_bytes = 0;  // of the vision tower; 0: see images_problem
  std::int64_t max_pixels = 0;                         // of a picture, by default
  std::string images_problem;                          // empty: prompts may have pictures
  int layers = 0, full_attention_layers = 0, hidden = 0, vocabulary = 0;
  int draft_bits = 0;         // bits of the requantised MTP matrices; 0: all as stored
  int draft_vocabulary = 0;   // default size
  std::string drafted_among;  // the same as text
  int heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  bool tied = false;
  std::int64_t max_context = 0, context = 0;  // tokens; memory is computed for `context`
  std::int64_t weight_bytes = 0, state_bytes = 0, image_bytes = 0;
  std::int64_t memory_needed = 0, memory_available = 0;  // bytes
  std::string verdict;                                   // "fits", "tight", "does not fit"
  std::string gpu;                                       // the same for this machine's GPU; empty: none
  std::vector<std::string> devices;                      // the part of each, if the model is divided
  std::string head_state, head_sentence, head_file;
  std::vector<std::string> head_donors;  // sources of a head for it (cli/library/head_donors.h)
  std::string tune;                      // the command that trains a drafter for it; empty: it has one
  std::string drafter;                   // the drafter of `auto`
  std::vector<std::string> notes;        // parts of drafters' files that are not used
  std::string program;                   // the instructions, if requested
  PackedFiles packed_cache;
  std::string tier, tier_reason, tier_next;  // empty: a synthetic model
};

/// "27.3 billion", "3.35 million".
std::string count_text(std::int64_t count);
/// "3.35 million parameters in 16 bits, 6.7 MB, ..." or why there is none.
std::string tower_text(const Inspection& found);

/// Memory is measured for `backend`.
Inspection inspect(const Model& model, const Machine& machine, std::int64_t context, const Backend& backend,
                   bool with_program);

}  // namespace ft::cli
