// Finds the model folder: --model, else the shipped model beside the program, in its install folder or in the
// source tree. The kNotFound error lists the searched folders.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

inline constexpr const char* kShippedModel = "qwen3.5-tiny";

/// Candidate folders of the shipped model, in search order. `program` is the path of the executable.
std::vector<std::string> shipped_model_places(const std::string& program);

/// `named` if it is a folder; if empty, the first candidate with a config.json.
Result<std::string> find_model(const std::string& named);

/// The absolute path of the running program, or empty.
std::string program_path();

}  // namespace ft::cli
