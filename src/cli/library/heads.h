// Heads that `graft` stores for models of this machine, in the data folder: a folder for each model, named by
// the identity of its configuration and weights (hub/summary.h). It holds an MTP head (LoadOptions::
// head_directory) or names the folder of a separate drafter. The model's files do not change.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/model.h"

namespace ft::cli {

struct KeptHead {
  std::string directory;                 // of an MTP head; empty: none
  std::optional<DraftFolder> companion;  // a drafter in a separate folder
};

/// $XDG_DATA_HOME/foretoken/heads, else ~/.local/share/foretoken/heads; empty without a home.
std::string heads_folder();
/// The folder for one model, whether it exists or not; empty without a home.
std::string head_folder_of(const std::string& model_directory);
/// The record of the model; a damaged one counts as missing.
KeptHead kept_head(const std::string& model_directory);
/// Drafters that load without a flag: folders `eagle3` and `dflash` in the model's folder or next to its GGUF
/// file, and the grafted one, which has precedence over a folder of its kind. kNotFound if the grafted one's
/// folder is missing.
Result<std::vector<DraftFolder>> found_drafters(const std::string& model_directory);
/// Records the drafter of a folder for the model.
Status keep_companion(const std::string& model_directory, const DraftFolder& companion);
/// Copies the MTP head of a folder, mtp.safetensors and config.json, for the model. Its record stays.
Status keep_head(const std::string& model_directory, const std::string& from);

}  // namespace ft::cli
