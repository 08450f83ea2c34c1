// JSON as text: what may be said about it, and how a string is written, without building a tree. Used where
// streamed and whole results must be the same bytes. Pure functions; any thread; linear; no errors.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// Appends `text` with JSON's escapes and without quotes; UTF-8 stays as it is.
void append_json_escaped(std::string_view text, std::string& out);

/// `text` as a JSON string with quotes.
std::string json_quoted(std::string_view text);

/// The deepest nesting of arrays and objects, brackets in strings not counted.
int json_depth(std::string_view text);

/// One whole JSON value that is not nested deeper than `max_depth`.
bool is_json(std::string_view text, int max_depth);

}  // namespace ft
