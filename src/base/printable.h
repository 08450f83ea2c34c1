// Foreign text (a file's key, a model's name) in a line for a terminal or a log: characters that a terminal
// or a line reader may interpret become \uXXXX. Invalid UTF-8 becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// `utf8` with each control as \uXXXX, unless it is one of `kept`. Controls are C0 and C1, line and paragraph
/// separators, and marks that change a line's direction. `backslashes`: also doubles each backslash, so that
/// the text can be read back.
std::string escape_controls(std::string_view utf8, std::string_view kept = {}, bool backslashes = false);
/// Keeps line feeds and tabs, which messages have themselves.
std::string printable(std::string_view text);

}  // namespace ft
