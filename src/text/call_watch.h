// CallWatch: finds the beginning of a tool call in the tokens of an answer that may have text before it. From
// there on a grammar of calls takes over (sched/answer_constraint.h); the text before stays free. A pattern
// is a text that the parser of the chat format takes for a call's beginning; within reasoning, only the one
// that ends it. Some tokens complete a pattern and continue; they are allowed if the grammar allows the rest
// of them. Patterns that the grammar cannot continue may not be completed. Owner: ThinkingMarks, one a model;
// immutable. Thread: any. Cost: a list of tokens for each byte of a pattern; about 50 ms for 250,000 tokens.
// No errors.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace ft {

class CallWatch {
 public:
  static constexpr size_t kMaxPatterns = 6;
  /// Bytes of each pattern that the text ends with.
  using Matched = std::array<uint8_t, kMaxPatterns>;
  /// Tokens that complete a pattern, of which `rest` bytes are missing.
  struct Completion {
    size_t pattern = 0, rest = 0;
    std::span<const int32_t> longer;  // complete it and continue
    std::span<const int32_t> exact;
  };

  CallWatch(const Tokenizer& tokenizer, const ChatFormat& format);

  /// Number of patterns.
  size_t size() const { return patterns_.size(); }
  Matched follow(Matched matched, std::string_view bytes) const;
  /// The completions after `matched`, of patterns that count in the reasoning or in the content.
  std::vector<Completion> completions(const Matched& matched, bool in_reasoning) const;
  /// Tokens that complete a pattern without being its end, such as one with text before the pattern.
  std::span<const int32_t> unaligned() const { return unaligned_; }
  /// The texts of which one, where the grammar allows it, brings a matcher to the end of the pattern. Empty:
  /// no call of the grammar begins so.
  std::span<const std::string> markers(size_t pattern) const { return patterns_[pattern].markers; }

 private:
  struct Pattern {
    std::string text;
    size_t gap = std::string::npos;  // at this byte any white space may come
    bool in_reasoning = false, in_content = false;
    std::vector<std::string> markers;
    std::vector<size_t> borders;  // [n]: longest proper beginning that ends the first n bytes
    std::vector<std::vector<int32_t>> longer, exact;  // [bytes matched]
  };
  void add(std::string text, bool in_reasoning, bool in_content, std::vector<std::string> markers,
           size_t gap = std::string::npos);

  std::vector<Pattern> patterns_;
  std::vector<int32_t> unaligned_;
};

}  // namespace ft
