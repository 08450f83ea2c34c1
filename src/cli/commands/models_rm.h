// How a model on this machine is deleted.
#pragma once

#include <string>

#include "cli/library/library.h"

namespace ft::cli {

/// The command that deletes the model, of the program that has it; empty for the shipped model.
std::string how_to_delete(const KnownModel& model);

}  // namespace ft::cli
