// JSON as text: checks and string quoting without building a tree. Used where streamed and whole results must
// have the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// Appends `text` with JSON escapes and without quotes; UTF-8 is unchanged.
void append_json_escaped(std::string_view text, std::string& out);

/// `text` as a JSON string with quotes.
std::string json_quoted(std::string_view text);

/// The max nesting of arrays and objects; brackets in strings do not count.
int json_depth(std::string_view text);

/// True for one complete JSON value that is not nested deeper than `max_depth`.
bool is_json(std::string_view text, int max_depth);

}  // namespace ft
