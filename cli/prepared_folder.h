// Where prepared files (backends/cpu/prepared.h) are kept, and which a model has. Thread: any. Cost: a
// folder's list. Errors: kInvalid if `auto` has no place to be.
#pragma once

#include <string>

#include "backends/registry.h"
#include "models/model.h"

namespace ft::cli {

/// `choice`: off, auto or a folder. "" if nothing is kept. auto: foretoken in $XDG_CACHE_HOME or ~/.cache.
Result<std::string> prepared_folder(const std::string& choice);

/// What file names begin with; a model's name may hold what no file name should (synth:...?bits=4).
std::string file_name(const Model& model);

/// What a backend needs to keep packed weights of `model` in `folder`.
PreparedOptions prepared_options(const std::string& folder, const Model& model);

struct PreparedFiles {
  std::string folder;  // empty: nothing is kept
  int files = 0;
  std::int64_t bytes = 0;
};
/// The files of models of this name.
PreparedFiles find_prepared(const std::string& folder, const Model& model);

}  // namespace ft::cli
