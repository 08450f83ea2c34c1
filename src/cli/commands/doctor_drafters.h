// The check of `doctor` on drafters with a folder of their own: whether each fits the model that it is to
// draft for, in width, layers and vocabulary.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lab/machine.h"
#include "models/model.h"

namespace ft::cli {

/// `named`: folders that the person asks about; empty: those that belong to the model. `directory`: of the
/// model, which loads.
void check_drafters(const std::string& directory, std::span<const DraftFolder> named,
                    std::vector<Finding>& findings);

}  // namespace ft::cli
