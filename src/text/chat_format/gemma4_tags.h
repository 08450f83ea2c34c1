// The tags of Gemma 4's chat format, each one a special token. Only files of text/chat_format/ include it.
#pragma once

#include <string_view>

namespace ft::gemma4_tags {

inline constexpr std::string_view kChannelOpen = "<|channel>";
inline constexpr std::string_view kThoughtOpen = "<|channel>thought";  // the channel's name is text
inline constexpr std::string_view kChannelClose = "<channel|>";
inline constexpr std::string_view kCallOpen = "<|tool_call>";
inline constexpr std::string_view kCallClose = "<tool_call|>";
inline constexpr std::string_view kCallWord = "call:";
inline constexpr std::string_view kQuote = "<|\"|>";  // at both ends of a string

}  // namespace ft::gemma4_tags
