// JsonScan: where the reader of a JSON object or array is, character by character. It means nothing for text
// that is not JSON. Cost: a few comparisons for a character.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/tags.h"

namespace ft {

class JsonScan {
 public:
  void push(std::string_view text) {
    for (const char c : text) push(c);
  }
  /// Up to the end of the object or array; the number of bytes that were read.
  size_t push_to_end(std::string_view text) {
    size_t read = 0;
    while (read < text.size() && place_ != kAfter) push(text[read++]);
    return read;
  }

  /// Inside a string of an object or array.
  bool in_string() const { return place_ == kString || place_ == kEscape; }
  /// The object or array was closed.
  bool ended() const { return place_ == kAfter; }

 private:
  // kOther: the text is neither an object nor an array.
  enum Place { kBefore, kInside, kString, kEscape, kAfter, kOther };

  void push(char c) {
    const bool opens = c == '{' || c == '[';
    if (place_ == kBefore && kTagSpace.find(c) == std::string_view::npos) {
      place_ = opens ? kInside : kOther;
      depth_ = 1;
    } else if (place_ == kInside) {
      if (c == '"') place_ = kString;
      depth_ += opens ? 1 : 0;
      depth_ -= c == '}' || c == ']' ? 1 : 0;
      if (depth_ == 0) place_ = kAfter;
    } else if (place_ == kString) {
      place_ = c == '"' ? kInside : c == '\\' ? kEscape : kString;
    } else if (place_ == kEscape) {
      place_ = kString;
    }
  }

  Place place_ = kBefore;
  int depth_ = 0;  // open brackets
};

}  // namespace ft
