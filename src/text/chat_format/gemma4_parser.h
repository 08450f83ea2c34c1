// Gemma4Parser: the ToolParser of calls as Gemma 4 writes them:
//   <|tool_call>call:NAME{key:value,...}<tool_call|>
// A value is a string between two <|"|>, an object, an array, or bare text. Values are typed by the request's
// schemas. String parameters stream; others come when complete. Tags inside a string are part of it. Of a
// repeated key the first counts. NAME may be any tool of the request; other names are of letters, digits and
// _.:- Repairs: a missing <tool_call|>, or one too many; a missing "call:"; strings between ordinary quotes;
// an answer that the model ends inside a call. Text that only begins like a call is content. Cost: O(bytes),
// amortised; holds a tag, or one parameter that is not a string.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format/call_parser.h"
#include "text/chat_format/gemma4_value.h"

namespace ft {

class Gemma4Parser final : public CallParser {
 public:
  explicit Gemma4Parser(ToolSchemas schemas) : CallParser(std::move(schemas)) {}

  void push(std::string_view text, std::vector<AnswerEvent>& out) override;
  void finish(bool cut, std::vector<AnswerEvent>& out) override;

 private:
  enum class State { kText, kName, kKey, kValueStart, kString, kValue, kAfter };

  Progress step(std::vector<AnswerEvent>& out);
  Progress step_text(std::vector<AnswerEvent>& out);
  Progress step_name(std::vector<AnswerEvent>& out);
  Progress step_key(std::vector<AnswerEvent>& out);
  Progress step_value_start(std::vector<AnswerEvent>& out);
  Progress step_string(std::vector<AnswerEvent>& out);
  Progress step_value(std::vector<AnswerEvent>& out);
  Progress step_after();

  Progress become(State state, size_t eaten);
  void finish_ended(std::vector<AnswerEvent>& out);
  bool is_name(std::string_view text) const;
  void take_character(char c);

  ValueReader reader() const override { return json_of_gemma4_value; }
  ValueReader cut_reader() const override { return cut_json_of_gemma4_value; }

  State state_ = State::kText;
  size_t depth_ = 0;                                                    // open brackets of value_
  enum String { kNoString, kTagged, kJsonString } string_ = kNoString;  // that value_ ends inside of
  char before_ = 0;       // the last character of value_ that is not white space; 0: none
  bool escaped_ = false;  // a backslash comes before
};

}  // namespace ft
