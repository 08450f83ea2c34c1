// UTF-8: is text well formed, how much of it is complete, and a readable stand-in for the rest. It serves
// streams whose characters may be split between tokens, and keeps invalid bytes out of JSON. Pure functions,
// one pass. Source: Unicode 15, table 3-7 (well-formed byte sequences) and section 3.9, "U+FFFD substitution
// of maximal subparts", as WHATWG decoders and Python's errors="replace" do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ft {

/// True for a byte that is not a continuation byte, so in well-formed text for the first byte of a character.
constexpr bool utf8_begins(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

/// The number of characters of well-formed text, in one pass.
std::size_t utf8_count(std::string_view text);

/// True iff all of `text` is well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool utf8_valid(std::string_view text);

/// Number of bytes that may be shown now: all, except a trailing sequence that is well formed so far and that
/// later bytes may finish (at most 3 bytes are held back). Invalid bytes are not held back.
std::size_t utf8_complete_prefix(std::string_view text);

/// `text` with each maximal ill-formed part replaced by U+FFFD. The result is always well formed; well-formed
/// text is unchanged.
std::string utf8_replace_invalid(std::string_view text);

}  // namespace ft
