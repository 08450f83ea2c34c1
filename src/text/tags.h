// Tags in streamed text: does the text start with a tag, or could it once more text arrives? The thinking
// splitter and the tool parser share these functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace ft {

inline constexpr std::string_view kTagSpace = " \t\r\n\f\v";
inline constexpr size_t kMaxTagGap = 256;  // max bytes of white space between two related tags

struct TagMatch {
  enum Kind { kNone, kPartial, kFull } kind = kNone;
  size_t size = 0;  // bytes matched if kFull
};

/// Matches `first`, white space (up to kMaxTagGap), and `second` at the start of `text`. Either may be empty;
/// without `first` the white space comes first. An empty `second` needs no white space.
TagMatch match_tag(std::string_view text, std::string_view first, std::string_view second);

}  // namespace ft
