// ThinkingMarks: the vocabulary's marks of reasoning: which tokens open and close it, and what follows a
// close. For an answer with a grammar it also says which tokens are allowed in the reasoning. Tokens that end
// the answer are excluded, and so are tokens that spell </think> with content after it, so that the content
// begins with a token. The scheduler has one per model; it is immutable. Cost: 8 masks over the vocabulary,
// about 30 ms and 250 kB for 250,000 tokens, 1 ms for 8,000.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace ft {

class ThinkingMarks {
 public:
  static constexpr std::string_view kClose = "</think>";

  ThinkingMarks(const Tokenizer& tokenizer, std::span<const int32_t> eos);

  /// <think> as one token, if the vocabulary has one.
  std::optional<int32_t> open() const { return open_; }
  /// The tokens of </think>, almost always one.
  const std::vector<int32_t>& close() const { return close_; }
  /// The tokens of the empty line between reasoning and content.
  const std::vector<int32_t>& gap() const { return gap_; }
  bool ends_answer(int32_t token) const;
  /// The mask of the tokens that end an answer.
  std::span<const uint32_t> ends() const { return ends_; }

  /// Bytes of </think> at the end of the reasoning after one more token; kClose.size() when complete.
  static size_t follow(size_t matched, std::string_view bytes);
  /// Tokens allowed in the reasoning after `matched` bytes of </think> (SampleRow::mask).
  std::span<const uint32_t> mask(size_t matched) const { return masks_[matched]; }

 private:
  std::optional<int32_t> open_;
  std::vector<int32_t> close_, gap_, eos_;
  std::vector<uint32_t> ends_;
  std::array<std::vector<uint32_t>, kClose.size()> masks_;
};

}  // namespace ft
