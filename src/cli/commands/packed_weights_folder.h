// The folder of packed-weight cache files (backends/packed_cache.h), and the files of a model.
#pragma once

#include <string>

#include "backends/options.h"
#include "models/model.h"

namespace ft::cli {

/// `choice`: off, auto or a folder. Returns "" for off; auto is foretoken in $XDG_CACHE_HOME or ~/.cache.
/// kInvalid if auto finds no home folder.
Result<std::string> packed_weights_folder(const std::string& choice);

/// Where a backend keeps compiled pipelines: as auto; empty without a home folder.
std::string kernel_folder();

/// The prefix of the file names; model names may contain characters that file names may not
/// (synth:...?bits=4).
std::string file_name(const Model& model);

/// The options with which a backend caches packed weights of `model` in `folder`.
PackedCacheOptions packed_cache_options(const std::string& folder, const Model& model);

struct PackedFiles {
  std::string folder;  // empty: nothing is cached
  int files = 0;
  std::int64_t bytes = 0;
};
/// The files of models with this name.
PackedFiles find_packed(const std::string& folder, const Model& model);

}  // namespace ft::cli
