// ListedCallsParser: the ToolParser of Mistral and Granite, whose calls are JSON after a mark:
//   MARK[{"name": NAME, "arguments": {..}}, ..]     a list, or one object
//   MARK NAME ARGS {..}                             where the format has a mark before arguments
// After a call of the second form another may follow without its first mark, if it names a tool of the
// request. A call is given when it is whole. A mark without a call is content. Cost: O(bytes), but a call is
// held.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format.h"
#include "text/chat_format/call_parser.h"

namespace ft {

struct CallMarks {
  std::span<const std::string_view> begins;
  std::string_view arguments;  // between a name and its arguments; empty: calls are JSON alone
  std::string_view id;         // of a call, between its name and `arguments`; dropped
};

class ListedCallsParser final : public CallParser {
 public:
  ListedCallsParser(ToolSchemas schemas, const CallMarks& marks)
      : CallParser(std::move(schemas)), marks_(marks) {}

  void push(std::string_view text, std::vector<AnswerEvent>& out) override;
  void finish(bool cut, std::vector<AnswerEvent>& out) override;

 private:
  // kStart: after a mark; kItems: in a list, or after its only object; kObject: in an object; kAfter: after
  // the arguments of a named call.
  enum class State { kText, kStart, kItems, kObject, kAfter };
  enum class Found { kYes, kNo, kUndecided };

  Progress step(std::vector<AnswerEvent>& out);
  Progress step_text(std::vector<AnswerEvent>& out);
  Progress step_start(std::vector<AnswerEvent>& out);
  Progress step_items(std::vector<AnswerEvent>& out);
  Progress step_object(std::vector<AnswerEvent>& out);
  Progress step_after();
  Progress become(State state, size_t eaten);
  Progress take_markup(State state, size_t size);
  Progress no_call(size_t size, std::vector<AnswerEvent>& out);
  Progress begin_object(std::string_view name, size_t at);
  Found named_call(std::string_view text, std::string_view& name, size_t& size) const;
  bool take_object(std::string_view json, std::vector<AnswerEvent>& out);
  void cut_object(std::vector<AnswerEvent>& out);

  CallMarks marks_;
  State state_ = State::kText;
  std::string markup_;    // read since the last call, content if none follows
  std::string named_;     // the name, if the object is arguments alone
  bool in_list_ = false;  // the object is an item of a list
  size_t seen_ = 0;       // of the object: the position of the reader
};

/// The grammar of one item of a list, for ToolCallSyntax.
Result<CallBody> listed_call_body(const ToolFunction& function, const std::string& prefix, std::string& lark);
Result<std::string> listed_text_body(const TextFunction& function, const std::string& prefix,
                                     std::string& lark);

}  // namespace ft
