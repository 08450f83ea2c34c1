// ToolParser: finds tool calls in the content of an answer and emits them as pieces of JSON. Each chat format
// has one (text/chat_format/). For each of them: the arguments of a call that ends, joined, are one JSON
// object, and the same bytes for every split of the text. A call that is cut (max_tokens, a stop string, a
// cancel) has no kToolEnd: its arguments are the written part, without markup and without an end.
// White space before, between and after calls is dropped. Owner: one answer. Thread: one. No errors: any text
// is content at worst.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_event.h"

namespace ft {

inline constexpr size_t kMaxCallName = 256;  // bytes of the name of a function or parameter

class ToolParser {
 public:
  virtual ~ToolParser() = default;

  virtual void push(std::string_view text, std::vector<AnswerEvent>& out) = 0;
  /// No more text comes. `cut`: the model was not done; otherwise a call that it left open is closed.
  virtual void finish(bool cut, std::vector<AnswerEvent>& out) = 0;
  /// Calls begun so far.
  virtual size_t calls() const = 0;
  /// For a parser that reads the whole answer (ChatFormat::channels): true inside the reasoning.
  virtual bool in_reasoning() const { return false; }
  /// For such a parser, before the first text: the prompt ended within the reasoning.
  virtual void begin_in_reasoning() {}
};

}  // namespace ft
