// Patterns of JSON schemas (JavaScript's regular expressions without look-around and backreferences) and the
// formats of strings. Pure; any thread. Errors: kInvalid for an expression that cannot be used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ft {

/// The most work that one match may be; more is an error.
inline constexpr uint64_t kMaxPatternWork = 40'000;

/// True if `text` has a match anywhere. `work`: if given, the work of finding out is added to it.
Result<bool> pattern_matches(std::string_view pattern, std::string_view text, uint64_t* work = nullptr);

/// A regular expression of Lark, without slashes, for whole texts that have a match of `pattern`.
Result<std::string> whole_pattern(std::string_view pattern);

/// The same for a format: "date", "uuid". Null: not known. Empty: the format does not constrain the text.
const char* format_pattern(std::string_view format);

/// `text` as a regular expression of Lark that matches it and nothing else.
std::string escaped_for_lark(std::string_view text);

}  // namespace ft
