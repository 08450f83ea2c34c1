// How a model of this machine is deleted.
#pragma once

#include <string>

#include "cli/library/library.h"

namespace ft::cli {

/// The command that deletes the model; another program's models are its own.
std::string how_to_delete(const KnownModel& model);

}  // namespace ft::cli
