// The small model that comes with the program: where it is, and as one of the models on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hub/scan.h"

namespace ft::cli {

inline constexpr const char* kShippedModel = "qwen3.5-tiny";
inline constexpr const char* kShippedPlace = "foretoken";  // FoundModel::place

/// Candidate folders of the shipped model, in search order. `program` is the path of the executable.
std::vector<std::string> shipped_model_places(const std::string& program);

/// The first candidate of this program with a config.json.
std::optional<hub::FoundModel> find_shipped_model();

}  // namespace ft::cli
