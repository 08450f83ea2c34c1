// The tags of GLM's chat format. Only files of text/chat_format/ include it.
#pragma once

#include <string_view>

namespace ft::glm4_moe_tags {

inline constexpr std::string_view kCallOpen = "<tool_call>";
inline constexpr std::string_view kCallClose = "</tool_call>";
inline constexpr std::string_view kKeyOpen = "<arg_key>";
inline constexpr std::string_view kKeyClose = "</arg_key>";
inline constexpr std::string_view kValueOpen = "<arg_value>";
inline constexpr std::string_view kValueClose = "</arg_value>";

}  // namespace ft::glm4_moe_tags
