// The tags of Mistral's chat format. Only files of text/chat_format/ include it.
#pragma once

#include <string_view>

namespace ft::mistral_tags {

inline constexpr std::string_view kCalls = "[TOOL_CALLS]";
inline constexpr std::string_view kId = "[CALL_ID]";
inline constexpr std::string_view kArguments = "[ARGS]";
inline constexpr std::string_view kThinkOpen = "[THINK]";
inline constexpr std::string_view kThinkClose = "[/THINK]";

}  // namespace ft::mistral_tags
