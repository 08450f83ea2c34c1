// Qwen35Parser: the ToolParser of calls as Qwen3.5 and Hermes write them:
//   <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>
// Values are typed by the request's schemas. String parameters stream; others come when complete. A value
// ends at the first </parameter> that is followed by <parameter=, </function>, </tool_call> or the end of the
// text, so it may contain that word. Of a repeated parameter the first counts.
// Repairs: several functions in one block; a bare <function=NAME> of a known tool; a missing </function> or
// </tool_call>; an answer that the model ends inside a call; {"name":..,"arguments":..} inside <tool_call>.
// What begins like a call and is none is content. Cost: O(bytes), amortised; holds a tag, or one parameter
// that is not a string.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_parser.h"
#include "text/tool_schema.h"

namespace ft {

class Qwen35Parser final : public ToolParser {
 public:
  explicit Qwen35Parser(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  void push(std::string_view text, std::vector<ToolEvent>& out) override;
  void finish(bool cut, std::vector<ToolEvent>& out) override;
  size_t calls() const override { return calls_; }

 private:
  enum class State { kText, kCallStart, kName, kBody, kKey, kValue, kAfter, kHermes };
  enum class Progress { kMore, kWait };  // look again, or more text is needed

  Progress step(std::vector<ToolEvent>& out);
  Progress step_text(std::vector<ToolEvent>& out);
  Progress step_call_start(std::vector<ToolEvent>& out);
  Progress step_name(std::vector<ToolEvent>& out);
  Progress step_body(std::vector<ToolEvent>& out);
  Progress step_key(std::vector<ToolEvent>& out);
  Progress step_value(std::vector<ToolEvent>& out);
  Progress step_after();
  Progress step_hermes(std::vector<ToolEvent>& out);

  Progress become(State state, size_t eaten);
  void content(std::string_view text, std::vector<ToolEvent>& out);
  void emit(ToolEvent::Kind kind, std::string_view text, std::vector<ToolEvent>& out);
  void begin_call(std::string_view name, std::vector<ToolEvent>& out);
  void end_call(std::vector<ToolEvent>& out);
  void add_value(std::string_view text, std::vector<ToolEvent>& out);
  void end_value(std::vector<ToolEvent>& out);
  void finish_cut(std::vector<ToolEvent>& out);
  bool known_bare_call(std::string_view text, bool& undecided) const;
  bool hermes_call(std::string_view json, std::vector<ToolEvent>& out);

  ToolSchemas schemas_;
  State state_ = State::kText;
  bool last_ = false;  // no more text will come
  std::string held_;   // not yet decided
  std::string space_;  // white space of the content, dropped if a call follows
  size_t calls_ = 0;
  bool swallow_ = false;  // white space after a call

  std::string name_;            // of the function
  std::set<std::string> keys_;  // its parameters so far
  std::string key_;             // of the parameter
  std::string value_;           // of the parameter, unless it streams
  bool streams_ = false;        // a plain string
  bool repeated_ = false;       // the key was there before: the value is dropped
  bool value_begun_ = false;    // the newline after the tag was looked for
  size_t hermes_seen_ = 0;      // bytes of held_ without </tool_call>
  int hermes_tries_ = 0;
};

}  // namespace ft
