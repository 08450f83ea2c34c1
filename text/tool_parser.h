// ToolParser: finds tool calls in the content of an answer, in Qwen3.5's form, and returns them as pieces of
// JSON:
//   <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>
// The request's schemas give the types of values. String parameters stream; other values are emitted when
// complete. The arguments of a call, joined, are one JSON object with the same bytes for every split of the
// text. A value ends at the first </parameter> before <parameter=, </function>, </tool_call>, or the end of
// the text, so it may contain that tag. The first of repeated parameters counts. Repairs: several functions
// in one block; a bare <function=NAME> of a known tool; a missing </function> or </tool_call>; an answer that
// ends inside a call; {"name":..,"arguments":..} inside <tool_call>. Any other text is content. White space
// before, between, and after calls is dropped. Memory: up to one tag, or one parameter that is not a string.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_schema.h"

namespace ft {

struct ToolEvent {
  enum class Kind {
    kContent,    // text
    kBegin,      // a new call; text is the function's name
    kArguments,  // text is the next piece of JSON arguments
    kEnd,        // the call is complete
  };
  Kind kind = Kind::kContent;
  std::string text;
};

class ToolParser {
 public:
  explicit ToolParser(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  void push(std::string_view text, std::vector<ToolEvent>& out);
  void finish(std::vector<ToolEvent>& out);

  /// Calls started so far.
  size_t calls() const { return calls_; }

 private:
  enum class State { kText, kCallStart, kName, kBody, kKey, kValue, kAfter, kHermes };
  enum class Progress { kMore, kWait };  // kWait: more text is needed

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
  bool known_bare_call(std::string_view text, bool& undecided) const;
  bool hermes_call(std::string_view json, std::vector<ToolEvent>& out);

  ToolSchemas schemas_;
  State state_ = State::kText;
  bool last_ = false;  // no more text will arrive
  std::string held_;   // not yet decided
  std::string space_;  // white space after content, dropped if a call follows
  size_t calls_ = 0;
  bool swallow_ = false;  // drop white space after a call

  std::string name_;            // the function's name
  std::set<std::string> keys_;  // the function's parameters so far
  std::string key_;             // the parameter's name
  std::string value_;           // the parameter's value, unless it streams
  bool streams_ = false;        // the parameter is a plain string
  bool repeated_ = false;       // the key is a repetition, so the value is dropped
  bool value_begun_ = false;    // the newline after the tag was checked
  size_t hermes_seen_ = 0;      // bytes of held_ without </tool_call>
  int hermes_tries_ = 0;
};

}  // namespace ft
