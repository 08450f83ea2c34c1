// A tool call as Hermes and older Qwen models write it: {"name": ..., "arguments": {...}}, also with
// "parameters", or with the arguments as a text that holds the object. Pure; any thread; linear in the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ft {

struct HermesCall {
  std::string name;
  std::string arguments;  // one JSON object
};

/// Nothing if `json` is no such call, or nested deeper than 100.
std::optional<HermesCall> parse_hermes_call(std::string_view json);

}  // namespace ft
