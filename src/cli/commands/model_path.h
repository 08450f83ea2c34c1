// Finds the model: --model, which is a folder, a GGUF file, a folder that holds one, ORG/NAME or a name of
// `foretoken models`; else the shipped model next to the program, in its install folder or in the source
// tree. A kNotFound error lists the searched folders, or the command that fetches the model.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/library/shipped_model.h"

namespace ft::cli {

/// `named` if it is a folder or a GGUF file, else the place of the model with that name on this machine; if
/// empty, the place of the shipped model.
Result<std::string> find_model(const std::string& named);

/// A name like a path is not searched for elsewhere: its disk may be disconnected.
bool looks_like_path(const std::string& named);

}  // namespace ft::cli
