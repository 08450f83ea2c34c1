// Finds the model folder: --model, which is a folder, ORG/NAME or a name of `foretoken models`; else the
// shipped model beside the program, in its install folder or in the source tree. A kNotFound error lists the
// searched folders, or says how to fetch the model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

inline constexpr const char* kShippedModel = "qwen3.5-tiny";

/// Candidate folders of the shipped model, in search order. `program` is the path of the executable.
std::vector<std::string> shipped_model_places(const std::string& program);

/// `named` if it is a folder, else the folder of the model with that name on this machine; if empty,
/// the first candidate with a config.json.
Result<std::string> find_model(const std::string& named);

/// A name like a path is not looked for elsewhere: its disk may be unplugged.
bool looks_like_path(const std::string& named);

}  // namespace ft::cli
