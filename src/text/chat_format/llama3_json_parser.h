// Llama3JsonParser: the ToolParser of answers that are a call as a whole:
//   {"name": NAME, "parameters": {...}}
// Before it may be <|python_tag|>, in it "type": "function", in place of "parameters" "arguments" or a string
// that holds the object; several calls are divided by ";". An answer is held while it may still begin a call
// of a tool of the request, and is content from the first byte that cannot. A call is given when it is whole.
// Cost: O(bytes), but a call is held.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format/call_parser.h"

namespace ft {

class Llama3JsonParser final : public CallParser {
 public:
  static constexpr std::string_view kTag = "<|python_tag|>";

  explicit Llama3JsonParser(ToolSchemas schemas) : CallParser(std::move(schemas)) {}

  void push(std::string_view text, std::vector<AnswerEvent>& out) override;
  void finish(bool cut, std::vector<AnswerEvent>& out) override;

 private:
  enum class State { kUndecided, kCall, kText };

  bool step(std::vector<AnswerEvent>& out);
  bool take_call(std::string_view json, std::vector<AnswerEvent>& out);
  void content(std::vector<AnswerEvent>& out);
  void become_text();

  State state_ = State::kUndecided;
  size_t seen_ = 0;  // of a call: the position of the reader
};

}  // namespace ft
