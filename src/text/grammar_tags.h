// GrammarTags: how the tags of a chat format are written in a Lark grammar. A tag that the vocabulary has as
// one token is that token, because the model was trained on it and because added tokens match no text; any
// other tag is text. Immutable; the tokenizer and the format's list outlive it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace ft {

class GrammarTags {
 public:
  /// `special`: ChatFormat::special_tokens. The whole of a text is tried as a token too.
  GrammarTags(const Tokenizer& tokenizer, std::span<const std::string_view> special)
      : tokenizer_(tokenizer), special_(special) {}

  /// A text that may have tags, as a Lark expression; not empty.
  std::string expression(std::string_view text) const;
  /// Empty unless the vocabulary has the tag as one token.
  std::optional<std::string> token(std::string_view tag) const;

 private:
  const Tokenizer& tokenizer_;
  std::span<const std::string_view> special_;
};

}  // namespace ft
