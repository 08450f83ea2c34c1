// Llama3JsonParser: the ToolParser of answers that are a call as a whole:
//   {"name": NAME, "parameters": {...}}
// Before it may be <|python_tag|>, in it "type": "function", in place of "parameters" "arguments" or a string
// that holds the object; several calls are divided by ";". An answer is held while it may still begin a call
// of a tool of the request, and is content from the first byte that cannot. A call is given when it is whole.
// Cost: O(bytes), but a call is held.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_parser.h"
#include "text/tool_schema.h"

namespace ft {

class Llama3JsonParser final : public ToolParser {
 public:
  static constexpr std::string_view kTag = "<|python_tag|>";

  explicit Llama3JsonParser(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  void push(std::string_view text, std::vector<ToolEvent>& out) override;
  void finish(bool cut, std::vector<ToolEvent>& out) override;
  size_t calls() const override { return calls_; }

 private:
  enum class State { kUndecided, kCall, kText };

  bool step(std::vector<ToolEvent>& out);
  bool take_call(std::string_view json, std::vector<ToolEvent>& out);
  void content(std::vector<ToolEvent>& out);
  void become_text();

  ToolSchemas schemas_;
  State state_ = State::kUndecided;
  std::string held_;
  size_t calls_ = 0;
  // Of a call: where it was read to, and what is open there.
  size_t seen_ = 0;
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace ft
