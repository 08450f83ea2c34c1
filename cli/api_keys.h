// The keys that `serve` asks clients for, from flags and a file. A key is 1 to kMaxKeyBytes visible ASCII
// characters: a blank or a control character cannot be sent in a header as it was meant. What is no key is
// refused at start, because a server with an empty key is open to everybody. Errors: kInvalid; a message
// never shows a key.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flag.h"

namespace ft::cli {

inline constexpr std::size_t kMaxKeyBytes = 4096;
inline constexpr std::size_t kMaxKeyFileBytes = std::size_t{1} << 20;

/// What is wrong with `key`, or nothing.
Status check_key(std::string_view key);

/// For --api-key.
Setter appends_key(std::vector<std::string>& keys);

/// One key a line. A byte order mark, blanks and tabs around a key, empty lines, lines that begin with # and
/// the \r of \r\n are no part of a key. `name` is how messages call the file; they name the line.
Result<std::vector<std::string>> parse_keys(std::string_view text, const std::string& name);
Result<std::vector<std::string>> read_key_file(const std::string& path);

}  // namespace ft::cli
