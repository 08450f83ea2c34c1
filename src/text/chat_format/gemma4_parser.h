// Gemma4Parser: the ToolParser of calls as Gemma 4 writes them:
//   <|tool_call>call:NAME{key:value,...}<tool_call|>
// A value is a string between two <|"|>, an object, an array, or bare text. Values are typed by the request's
// schemas. String parameters stream; others come when complete. Tags inside a string are part of it. Of a
// repeated key the first counts.
// NAME may be any tool of the request; other names are of letters, digits and _.:-
// Repairs: a missing <tool_call|>, or one too many; a missing "call:"; strings between ordinary quotes; an
// answer that the model ends inside a call. What begins like a call and is none is content. Cost: O(bytes),
// amortised; holds a tag, or one parameter that is not a string.
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

class Gemma4Parser final : public ToolParser {
 public:
  explicit Gemma4Parser(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  void push(std::string_view text, std::vector<ToolEvent>& out) override;
  void finish(bool cut, std::vector<ToolEvent>& out) override;
  size_t calls() const override { return calls_; }

 private:
  enum class State { kText, kName, kKey, kValueStart, kString, kValue, kAfter };
  enum class Progress { kMore, kWait };  // look again, or more text is needed

  Progress step(std::vector<ToolEvent>& out);
  Progress step_text(std::vector<ToolEvent>& out);
  Progress step_name(std::vector<ToolEvent>& out);
  Progress step_key(std::vector<ToolEvent>& out);
  Progress step_value_start(std::vector<ToolEvent>& out);
  Progress step_string(std::vector<ToolEvent>& out);
  Progress step_value(std::vector<ToolEvent>& out);
  Progress step_after();

  Progress become(State state, size_t eaten);
  void content(std::string_view text, std::vector<ToolEvent>& out);
  void emit(ToolEvent::Kind kind, std::string_view text, std::vector<ToolEvent>& out);
  void begin_call(std::string_view name, std::vector<ToolEvent>& out);
  void end_call(std::vector<ToolEvent>& out);
  void end_value(std::vector<ToolEvent>& out);
  void finish_ended(std::vector<ToolEvent>& out);
  bool is_name(std::string_view text) const;
  void take_character(char c);

  ToolSchemas schemas_;
  State state_ = State::kText;
  bool last_ = false;  // no more text will come
  std::string held_;   // not yet decided
  std::string space_;  // white space of the content, dropped if a call follows
  size_t calls_ = 0;
  bool swallow_ = false;  // white space and closing tags after a call

  std::string name_;            // of the function
  std::set<std::string> keys_;  // its parameters so far
  std::string key_;             // of the parameter
  bool repeated_ = false;       // the key was there before: the value is dropped
  std::string value_;           // of the parameter, as written, unless it streams
  size_t depth_ = 0;            // open brackets of value_
  enum String { kNoString, kTagged, kJsonString } string_ = kNoString;  // that value_ ends inside of
  char before_ = 0;       // the last character of value_ that is not white space; 0: none
  bool escaped_ = false;  // a backslash comes before
};

}  // namespace ft
