// UTF-8: is it well formed, how much of it is complete, and a readable stand-in for what is not. Used to
// stream text whose characters may be split between tokens, and to keep invalid bytes out of JSON. Pure
// functions; any thread; one pass; no errors. Source: Unicode 15, table 3-7 (well-formed byte sequences) and
// section 3.9, "U+FFFD substitution of maximal subparts" (what WHATWG decoders and Python's errors="replace"
// do).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ft {

/// True iff all of `text` is well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool utf8_valid(std::string_view text);

/// How many bytes may be shown now: everything, except a trailing sequence that is so far well formed and may
/// be finished by bytes still to come (at most 3 are held back). Invalid bytes are not held back.
std::size_t utf8_complete_prefix(std::string_view text);

/// `text` with each maximal ill-formed part replaced by U+FFFD; always well formed, unchanged if already so.
std::string utf8_replace_invalid(std::string_view text);

}  // namespace ft
