// The control tokens of harmony. Used by its format and its parser.
#pragma once

#include <string_view>

namespace ft::harmony_tags {

inline constexpr std::string_view kStart = "<|start|>", kEnd = "<|end|>", kMessage = "<|message|>";
inline constexpr std::string_view kChannel = "<|channel|>", kConstrain = "<|constrain|>";
inline constexpr std::string_view kReturn = "<|return|>", kCall = "<|call|>";
inline constexpr std::string_view kFunctions = "functions.";

}  // namespace ft::harmony_tags
