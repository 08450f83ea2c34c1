// Sources for the MTP head that a model lacks: checkpoints of the same sizes on this machine, else the
// original that its model card names. From headers and small files; a donor's head is checked by `graft`.
#pragma once

#include <string>
#include <vector>

#include "models/model.h"

namespace ft::cli {

/// Each entry is a command. `name`: the model's name for --model.
std::vector<std::string> head_donors(const Model& model, const std::string& name);

/// The repository that a model card names as `base_model`; empty: none.
std::string base_model_of(const std::string& card);

}  // namespace ft::cli
