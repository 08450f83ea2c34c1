// The work of `graft`: takes a head, checks that it fits (family, sizes, rotary part, tokenizer, embedding,
// norms), measures its acceptance on a text, and stores it for the model. Errors: kInvalid for a head that
// does not fit or whose drafts are rejected; errors of loading. Nothing is stored then.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/terminal/terminal.h"

namespace ft::cli {

struct GraftOptions {
  std::string head, onto;
  std::string out;   // a file for the MTP head; empty: the data folder
  std::string text;  // a file; empty: built in
  bool force = false;
  int threads = 0;  // 0: one a core
};

struct GraftReport {
  std::string model, from, drafter;  // "mtp", "eagle3", "dflash", "assistant"
  std::string kept_in;               // a folder or a file
  std::int64_t bytes = 0;
  std::vector<double> acceptance;  // by position; empty: not measured
  std::vector<std::string> notes;
};

Result<GraftReport> graft(const GraftOptions& options, Terminal& terminal);

}  // namespace ft::cli
