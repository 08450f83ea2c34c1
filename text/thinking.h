// ThinkingSplitter: divides an answer into reasoning and content, as Qwen's models mark them: `<think>` may
// be in the prompt already, `</think>` ends the reasoning. Rules: newlines at both ends of the reasoning and
// directly after `</think>` are dropped; `<think>` counts only at the very start of an answer; a text that
// ends inside the reasoning has no content; `<tool_call>`, white space and
// `<function=` end an unclosed reasoning, if asked. Every split of the text gives the same result.
// Owner: one answer. Thread: one. Cost: O(bytes), amortised; holds a tag's bytes at most (and counts
// newlines). No errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ft {

struct ThinkingOptions {
  bool starts_in_reasoning = false;  // prompt_opens_thinking(prompt)
  bool tool_call_ends_reasoning = true;
};

/// True if `prompt`, white space at its end aside, ends with `<think>`.
bool prompt_opens_thinking(std::string_view prompt);
/// True if it ends with `</think>` so.
bool prompt_closes_thinking(std::string_view prompt);

class ThinkingSplitter {
 public:
  struct Piece {
    std::string reasoning;  // comes before content
    std::string content;
  };

  explicit ThinkingSplitter(const ThinkingOptions& options);

  Piece push(std::string_view text);
  Piece finish();

  bool in_reasoning() const { return state_ == State::kReasoning; }
  /// False while the text may yet turn out to open with `<think>`.
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
  size_t newlines_ = 0;    // seen in the reasoning and not yet shown
  bool reasoned_ = false;  // some reasoning was shown: newlines no longer lead
};

}  // namespace ft
