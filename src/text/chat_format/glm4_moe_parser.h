// Glm4MoeParser: the ToolParser of calls as GLM-4.5 and later write them; 4.7 leaves out the line ends:
//   <tool_call>NAME\n<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n</tool_call>
// Values are typed by the request's schemas. String parameters stream; others come when complete. A value
// ends at the first </arg_value>, but not inside a string of JSON that continues. Of a repeated parameter the
// first counts. Repairs: a missing </tool_call>, and an answer that the model ends inside a call. <tool_call>
// is content if neither a tag nor a known tool's name follows. Cost: O(bytes), amortised; holds a tag, or one
// parameter that is not a string.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format/call_parser.h"

namespace ft {

class Glm4MoeParser final : public CallParser {
 public:
  explicit Glm4MoeParser(ToolSchemas schemas) : CallParser(std::move(schemas)) {}

  void push(std::string_view text, std::vector<AnswerEvent>& out) override;
  void finish(bool cut, std::vector<AnswerEvent>& out) override;

 private:
  enum class State { kText, kName, kBody, kKey, kAfterKey, kValue };

  Progress step(std::vector<AnswerEvent>& out);
  Progress step_text(std::vector<AnswerEvent>& out);
  Progress step_name(std::vector<AnswerEvent>& out);
  Progress step_body(std::vector<AnswerEvent>& out);
  Progress step_key();
  Progress step_after_key(std::vector<AnswerEvent>& out);
  Progress step_value(std::vector<AnswerEvent>& out);
  Progress become(State state, size_t eaten);
  Ending ending(size_t at, size_t& size);

  State state_ = State::kText;
};

}  // namespace ft
