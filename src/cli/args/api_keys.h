// The keys that `serve` requires from clients, from flags and a file. A key is 1 to kMaxKeyBytes visible
// ASCII characters, because a header cannot carry blanks and control characters unchanged. Anything else is
// refused at start: a server with an empty key is open to everybody. A message never shows a key.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args/flag.h"

namespace ft::cli {

inline constexpr std::size_t kMaxKeyBytes = 4096;
inline constexpr std::size_t kMaxKeyFileBytes = std::size_t{1} << 20;

/// The fault of `key`, or nothing.
Status check_key(std::string_view key);

/// For --api-key.
Setter appends_key(std::vector<std::string>& keys);

/// One key per line. A byte order mark, blanks and tabs around a key, empty lines, lines that begin with #
/// and the \r of \r\n do not belong to a key. Messages call the file `name` and give the line.
Result<std::vector<std::string>> parse_keys(std::string_view text, const std::string& name);
Result<std::vector<std::string>> read_key_file(const std::string& path);

}  // namespace ft::cli
