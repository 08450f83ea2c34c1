// Qwen35Parser: the ToolParser of calls as Qwen3.5 and Hermes write them:
//   <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>
// Values are typed by the request's schemas. String parameters stream; others come when complete. A value
// ends at the first </parameter> that is followed by <parameter=, </function>, </tool_call> or the end of the
// text, so it may contain that word; a string of JSON that continues may contain all of it. Of a repeated
// parameter the first counts. Repairs: several functions in one block; a bare <function=NAME> of a known
// tool; a missing </function> or </tool_call>; an answer that the model ends inside a call;
// {"name":..,"arguments":..} inside <tool_call>. Text that only begins like a call is content. Cost:
// O(bytes), amortised; holds a tag, or one parameter that is not a string.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format/call_parser.h"

namespace ft {

class Qwen35Parser final : public CallParser {
 public:
  explicit Qwen35Parser(ToolSchemas schemas) : CallParser(std::move(schemas)) {}

  void push(std::string_view text, std::vector<AnswerEvent>& out) override;
  void finish(bool cut, std::vector<AnswerEvent>& out) override;

 private:
  enum class State { kText, kCallStart, kName, kBody, kKey, kValue, kAfter, kHermes };

  Progress step(std::vector<AnswerEvent>& out);
  Progress step_text(std::vector<AnswerEvent>& out);
  Progress step_call_start(std::vector<AnswerEvent>& out);
  Progress step_name(std::vector<AnswerEvent>& out);
  Progress step_body(std::vector<AnswerEvent>& out);
  Progress step_key(std::vector<AnswerEvent>& out);
  Progress step_value(std::vector<AnswerEvent>& out);
  Progress step_after();
  Progress step_hermes(std::vector<AnswerEvent>& out);

  Progress become(State state, size_t eaten);
  void finish_cut(std::vector<AnswerEvent>& out);
  bool known_bare_call(std::string_view text, bool& undecided) const;
  bool hermes_call(std::string_view json, std::vector<AnswerEvent>& out);

  State state_ = State::kText;
  bool value_begun_ = false;  // the newline after the tag was looked for
  size_t hermes_seen_ = 0;    // bytes of held_ without </tool_call>
  size_t hermes_scanned_ = 0;
  int hermes_tries_ = 0;
};

}  // namespace ft
