// The tags of Qwen3.5's and Hermes' chat formats. Only files of text/chat_format/ include it.
#pragma once

#include <string_view>

namespace ft::qwen3_5_tags {

inline constexpr std::string_view kCallOpen = "<tool_call>";
inline constexpr std::string_view kCallClose = "</tool_call>";
inline constexpr std::string_view kFunctionOpen = "<function=";
inline constexpr std::string_view kFunctionClose = "</function>";
inline constexpr std::string_view kParameterOpen = "<parameter=";
inline constexpr std::string_view kParameterClose = "</parameter>";

}  // namespace ft::qwen3_5_tags
