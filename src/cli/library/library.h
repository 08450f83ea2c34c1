// The models on this machine under the names that --model takes: one list for `models`, `start` and --model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/library/tier.h"
#include "hub/scan.h"

namespace ft::cli {

struct KnownModel {
  hub::FoundModel found;
  hub::ModelSummary summary;
  Assessment assessment;
};

struct Library {
  std::vector<KnownModel> models;
  std::string ended_early;
};

/// Every model, with its tier; the shipped one is the last. `extra`: further folders to search.
Result<Library> read_library(const std::vector<std::string>& extra = {});

/// The models below a folder, with their tier.
std::vector<KnownModel> models_below(const std::string& folder);

/// The model that `name` names: the shipped one, ORG/NAME[@REVISION], or the end of a known name. kNotFound
/// holds the `pull` command; kInvalid lists several that fit. `to_run`: of a repository's GGUF files, the one
/// that llama.cpp takes.
Result<KnownModel> find_known(const std::string& name, bool to_run = false);

/// The person's home as ~, for output.
std::string with_tilde(const std::string& path);

}  // namespace ft::cli
