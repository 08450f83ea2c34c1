// ThinkingMarks: reasoning in terms of the vocabulary: its opening and closing tokens and the text after a
// close. If the content must follow a grammar, also the tokens that may be in the reasoning before it: none
// that ends the answer, and none that spells the closing tag with content after it, so that the content
// begins with a token. Owner: the scheduler, one per model; immutable. Thread: any. Cost: a mask for each
// byte of the closing tag, about 30 ms and 250 kB for 250,000 tokens, 1 ms for 8,000. No errors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/call_watch.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace ft {

class ThinkingMarks {
 public:
  ThinkingMarks(const Tokenizer& tokenizer, std::span<const int32_t> eos, const ChatFormat& format);

  const ChatFormat& format() const { return format_; }
  const CallWatch& calls() const { return calls_; }
  /// The token that the opening tag is or begins with, if the vocabulary has one.
  std::optional<int32_t> open() const { return open_; }
  /// The tokens of the whole opening tag.
  const std::vector<int32_t>& opening() const { return opening_; }
  /// The tokens of the closing tag, nearly always one.
  const std::vector<int32_t>& close() const { return close_; }
  /// The tokens of the empty line between reasoning and content.
  const std::vector<int32_t>& gap() const { return gap_; }
  bool ends_answer(int32_t token) const;
  /// The mask of the tokens that end an answer.
  std::span<const uint32_t> ends() const { return ends_; }

  /// Bytes of the closing tag that the reasoning ends with, after one more token.
  size_t follow(size_t matched, std::string_view bytes) const;
  bool closed(size_t matched) const { return matched == format_.reasoning.close.size(); }
  /// The tokens allowed in the reasoning after `matched` bytes of the closing tag (SampleRow::mask).
  std::span<const uint32_t> mask(size_t matched) const { return masks_[matched]; }

 private:
  const ChatFormat& format_;
  const CallWatch calls_;
  std::vector<size_t>
      borders_;  // [n]: longest proper beginning of the closing tag that ends its first n bytes
  std::optional<int32_t> open_;
  std::vector<int32_t> opening_, close_, gap_, eos_;
  std::vector<uint32_t> ends_;
  std::vector<std::vector<uint32_t>> masks_;  // [bytes of the closing tag]
};

}  // namespace ft
