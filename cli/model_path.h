// Which folder holds the model: --model, else the shipped one. It is looked for where packages install it,
// beside the program, and in the source tree around the build folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

inline constexpr const char* kShippedModel = "qwen3.5-tiny";

/// Folders in which the shipped model may stand, in the order of the search. `program` is the path of the
/// executable.
std::vector<std::string> shipped_model_places(const std::string& program);

/// `named` if it is not empty and a folder, else the first place with a config.json.
Result<std::string> find_model(const std::string& named);

/// The absolute path of the running program, or empty.
std::string program_path();

}  // namespace ft::cli
