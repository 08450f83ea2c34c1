// Small text files and pipes: prompts, conversations, settings. A named pipe must have a writer within ten
// seconds; its text may then take any time. Every error names the file and the next step.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft {

inline constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

/// Some editors begin a text with a byte order mark in UTF-8. It is not a part of the text.
std::string_view without_byte_order_mark(std::string_view text);

/// A text without its byte order mark.
Result<std::string> read_text_file(const std::string& path, std::size_t limit_bytes);
/// Every byte of a file, for pictures.
Result<std::string> read_binary_file(const std::string& path, std::size_t limit_bytes);
/// All of standard input, as a text.
Result<std::string> read_standard_input(std::size_t limit_bytes);

/// Writes a temporary file and renames it, so that a full disk leaves the old file intact.
Status write_text_file(const std::string& path, const std::string& text);

}  // namespace ft
