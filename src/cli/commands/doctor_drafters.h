// The check of `doctor` on drafters in separate folders: whether each fits its model in width, layers and
// vocabulary.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lab/machine.h"
#include "models/model.h"

namespace ft::cli {

/// `named`: folders that the user names; empty: the model's own drafters. `directory`: the model's folder.
void check_drafters(const std::string& directory, std::span<const DraftFolder> named,
                    std::vector<Finding>& findings);

}  // namespace ft::cli
