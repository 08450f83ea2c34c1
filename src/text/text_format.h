// TextFormat: a grammar that the text of a custom tool must follow. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace ft {

struct TextFormat {
  std::string syntax;      // "lark" or "regex"
  std::string definition;  // in llguidance's Lark, or Rust's regex
};

/// What a call has around a text.
struct TextEnd {
  std::string suffix;   // follows the text; the text of a regex ends at its first occurrence
  std::string without;  // a regular expression of Lark that no part of the text of a regex matches
};

/// The text and its suffix as a Lark expression; the rules that it needs are appended to `lark`, their names
/// begin with `rule`.
std::string lark_of(const TextFormat& format, const std::string& rule, const TextEnd& end, std::string& lark);

}  // namespace ft
