// TextFormat: a grammar that the text of a custom tool must follow. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace ft {

struct TextFormat {
  std::string syntax;      // "lark" or "regex"
  std::string definition;  // in llguidance's Lark, or Rust's regex
};

/// The text as a Lark expression; the rule that it needs is appended to `lark` and named `rule`. Unless
/// `suffix` is empty, the expression includes it, and the text of a regex ends at its first occurrence.
std::string lark_of(const TextFormat& format, const std::string& rule, std::string_view suffix,
                    std::string& lark);

}  // namespace ft
