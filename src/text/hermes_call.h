// Parses a tool call of Hermes and older Qwen models: {"name": ..., "arguments": {...}}. It also accepts
// "parameters", and arguments as a string that contains the object.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ft {

struct HermesCall {
  std::string name;
  std::string arguments;  // one JSON object
};

/// Nullopt if `json` is not such a call, or is nested deeper than 100.
std::optional<HermesCall> parse_hermes_call(std::string_view json);

/// The same for a call that was cut: its name is whole, its arguments may be partial.
std::optional<HermesCall> parse_cut_hermes_call(std::string_view json);

}  // namespace ft
