// ThinkingSplitter: divides an answer into reasoning and content at the tags of its chat format. The opening
// tag may be in the prompt already; the closing tag ends the reasoning. Rules: newlines at both ends of the
// reasoning and directly after the closing tag are dropped, and so are tags around the content after it; the
// opening tag counts only at the very start of an answer; a text that ends inside the reasoning has no
// content; a tool call ends an unclosed reasoning, if asked. Every split of the text gives the same result.
// Owner: one answer. Thread: one. Cost: O(bytes), amortised; holds a tag's bytes at most (and counts
// newlines). No errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/chat_format.h"

namespace ft {

struct ThinkingOptions {
  bool starts_in_reasoning = false;  // of the prompt: prompt_opens_thinking
  bool tool_call_ends_reasoning = true;
};

/// True if `prompt` ends with the opening tag; white space after the tag does not count.
bool prompt_opens_thinking(std::string_view prompt, const ReasoningTags& tags);
/// The same for the closing tag, or for the header of content without reasoning.
bool prompt_closes_thinking(std::string_view prompt, const ReasoningTags& tags);

class ThinkingSplitter {
 public:
  struct Piece {
    std::string reasoning;  // precedes content
    std::string content;
  };

  /// The format must outlive the splitter.
  ThinkingSplitter(const ChatFormat& format, const ThinkingOptions& options);

  Piece push(std::string_view text);
  Piece finish();

  bool in_reasoning() const { return state_ == State::kReasoning; }
  /// False while the text may yet turn out to begin with the opening tag.
  bool begun() const { return state_ != State::kStart; }

 private:
  enum class State { kStart, kReasoning, kGap, kWrapped, kContent };  // kWrapped: content_close may come

  bool step(Piece& piece, bool last);
  bool step_start(Piece& piece, bool last);
  bool step_reasoning(Piece& piece, bool last);
  bool step_gap(bool last);
  bool step_wrapped(Piece& piece, bool last);
  void add_reasoning(std::string_view text, Piece& piece);

  const ChatFormat* format_;
  ThinkingOptions options_;
  State state_;
  std::string held_;       // not yet decided
  size_t newlines_ = 0;    // read in the reasoning and not yet shown
  bool begins_ = false;    // after content_open: newlines are dropped
  bool reasoned_ = false;  // some reasoning was shown, so newlines are kept
};

}  // namespace ft
