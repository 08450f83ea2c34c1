// Text of others (a file's key, a model's name) in a line for a terminal or a log: what a terminal or a
// reader of lines may take for a command becomes \uXXXX. Invalid UTF-8 becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// C0 and C1 controls, line and paragraph separators, and marks that change a line's direction.
bool is_control(char32_t point);
/// Keeps line feeds and tabs, which messages have themselves.
std::string printable(std::string_view text);

}  // namespace ft
