// HarmonyParser: reads a whole answer of gpt-oss, which follows "<|start|>assistant" of the prompt:
//   HEADER<|message|>BODY<|end|> <|start|>assistant HEADER<|message|>BODY<|return|>
// A header names a channel and perhaps a recipient, in any order:
//   <|channel|>analysis                                     reasoning
//   <|channel|>final, <|channel|>commentary                 content
//   <|channel|>commentary to=functions.NAME <|constrain|>json   a call, whatever the channel is
//    to=NAME                                                a call if the request has a tool of that name
// Messages to other recipients, which only tools of the model's maker have, are reasoning, and so are calls
// of a request without tools. What is between messages is dropped. A text that does not begin with a header
// is content. A call is given when it is whole; one whose arguments are not a JSON object is content. Cost:
// O(bytes), but a call and a header are held.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format/call_parser.h"

namespace ft {

class HarmonyParser final : public CallParser {
 public:
  explicit HarmonyParser(ToolSchemas schemas) : CallParser(std::move(schemas)) {}

  void push(std::string_view text, std::vector<AnswerEvent>& out) override;
  void finish(bool cut, std::vector<AnswerEvent>& out) override;
  bool in_reasoning() const override { return state_ == State::kBody && kind_ == Kind::kReasoning; }

  void begin_in_reasoning() override;

 private:
  enum class State { kStart, kHeader, kBody };
  enum class Kind { kReasoning, kContent, kCall };

  Progress step(std::vector<AnswerEvent>& out);
  Progress step_start();
  Progress step_header();
  Progress step_body(std::vector<AnswerEvent>& out);
  void begin_message(std::string_view header);
  void begin_body(Kind kind);
  void add(std::string_view text, std::vector<AnswerEvent>& out);
  void end_call(std::vector<AnswerEvent>& out);

  State state_ = State::kStart;
  Kind kind_ = Kind::kContent;      // of the body
  std::optional<Kind> last_shown_;  // of the text that was shown last
  bool divides_ = false;            // an empty line comes before the next text of the body
};

}  // namespace ft
