// Heads that `graft` keeps for models of this machine, in the data folder: a folder for each model, named by
// the identity of its configuration and weights (hub/summary.h). It holds an MTP head (LoadOptions::
// head_directory) or names a drafter in a folder of its own. The model's files stay as they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/model.h"

namespace ft::cli {

struct KeptHead {
  std::string directory;                 // of an MTP head; empty: none
  std::optional<DraftFolder> companion;  // a drafter in a folder of its own
};

/// $XDG_DATA_HOME/foretoken/heads, else ~/.local/share/foretoken/heads; empty without a home.
std::string heads_folder();
/// The folder for one model, whether it exists or not; empty without a home.
std::string head_folder_of(const std::string& model_directory);
/// What is kept for the model; a damaged record counts as none.
KeptHead kept_head(const std::string& model_directory);
/// Drafters that nobody has to name: folders `eagle3` and `dflash` in the model's own folder, or beside its
/// GGUF file, and the grafted one,
/// which goes before a folder of its kind. kNotFound if the folder of the grafted one is gone.
Result<std::vector<DraftFolder>> found_drafters(const std::string& model_directory);
/// Records the drafter of a folder for the model.
Status keep_companion(const std::string& model_directory, const DraftFolder& companion);

}  // namespace ft::cli
