// Small text files and pipes: prompts, conversations, settings. Every error names the file and the next step.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace ft {

inline constexpr std::size_t kMaxPromptBytes = std::size_t{64} << 20;

Result<std::string> read_text_file(const std::string& path, std::size_t limit_bytes);
/// All of standard input.
Result<std::string> read_standard_input(std::size_t limit_bytes);

/// Writes a temporary file and renames it, so that a full disk leaves the old file intact.
Status write_text_file(const std::string& path, const std::string& text);

}  // namespace ft
