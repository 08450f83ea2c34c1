// ThinkingSplitter: splits an answer into reasoning and content by the marks of Qwen's models. `<think>` may
// already be in the prompt; `</think>` ends the reasoning. Newlines at both ends of the reasoning and
// directly after `</think>` are dropped. `<think>` counts only at the start of an answer. A text that ends
// inside the reasoning has no content. `<tool_call>`, white space, and `<function=` end an unclosed
// reasoning, if enabled. Every split of the text gives the same result. Memory: up to one tag, and a count of
// newlines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ft {

struct ThinkingOptions {
  bool starts_in_reasoning = false;  // prompt_opens_thinking(prompt)
  bool tool_call_ends_reasoning = true;
};

/// True if `prompt`, ignoring trailing white space, ends with `<think>`.
bool prompt_opens_thinking(std::string_view prompt);
/// True if `prompt`, ignoring trailing white space, ends with `</think>`.
bool prompt_closes_thinking(std::string_view prompt);

class ThinkingSplitter {
 public:
  struct Piece {
    std::string reasoning;  // precedes content
    std::string content;
  };

  explicit ThinkingSplitter(const ThinkingOptions& options);

  Piece push(std::string_view text);
  Piece finish();

  bool in_reasoning() const { return state_ == State::kReasoning; }
  /// False while the text may still start with `<think>`.
  bool begun() const { return state_ != State::kStart; }

 private:
  enum class State { kStart, kReasoning, kGap, kContent };

  bool step(Piece& piece, bool last);
  bool step_start(Piece& piece, bool last);
  bool step_reasoning(Piece& piece, bool last);
  void add_reasoning(std::string_view text, Piece& piece);

  ThinkingOptions options_;
  State state_;
  std::string held_;       // not yet decided
  size_t newlines_ = 0;    // read in the reasoning and not yet shown
  bool reasoned_ = false;  // some reasoning was shown, so newlines are kept
};

}  // namespace ft
