// Tags in streamed text: does a text begin with a tag, or might it once more has come? Shared by the thinking
// splitter and the tool parser. Pure functions; any thread; O(tag). No errors.
#pragma once

#include <cstddef>
#include <string_view>

namespace ft {

inline constexpr std::string_view kTagSpace = " \t\r\n\f\v";
inline constexpr size_t kMaxTagGap = 256;  // bytes of white space between two tags that belong together

struct TagMatch {
  enum Kind { kNone, kPartial, kFull } kind = kNone;
  size_t size = 0;  // bytes matched if kFull
};

/// Whether `text` begins with `first`, white space (at most kMaxTagGap), `second`. Either may be empty;
/// without `first` the white space comes first. An empty `second` asks for no white space.
TagMatch match_tag(std::string_view text, std::string_view first, std::string_view second);

}  // namespace ft
