// A value in Gemma 4's syntax as JSON: strings between two <|"|> or ordinary quotes, objects with bare keys,
// arrays, JSON literals; any other text is a string.
#pragma once

#include <string>
#include <string_view>

#include "text/tool_schema.h"

namespace ft {

/// Always one JSON value. Text outside the syntax, or nested deeper than 100, becomes a string.
std::string json_of_gemma4_value(std::string_view text, const ParameterType& type);

/// The same of a text that was cut: the beginning of the JSON, without an end.
std::string cut_json_of_gemma4_value(std::string_view text, const ParameterType& type);

}  // namespace ft
