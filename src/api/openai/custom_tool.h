// Custom tools of OpenAI's dialects: tools whose input is a text. The model sees a function with one text
// parameter, `input`; a grammar of the tool's format becomes a rule for that text. Errors name the tool's
// field. Source: OpenAI's API reference, "Custom tools".
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/json.h"
#include "base/result.h"
#include "text/text_format.h"

namespace ft::api {

struct CustomTool {
  Json function;             // {name, description, parameters}, as the chat template shows it
  TextFormat format;         // without a syntax: any text
  std::string format_field;  // "tools[1].custom.format.grammar.definition"
};

/// Reads {type: custom, custom: {name, description, format}} of chat, or the flat form of Responses.
Result<CustomTool> read_custom_tool(const Json& tool, const std::string& path);

/// Takes the text out of a call's arguments, {"input": "text"}, as their JSON arrives. The joined pieces are
/// the same for every split. Arguments of another form are returned unchanged at the end.
class CustomInput {
 public:
  /// The next piece of the text; empty while nothing new is certain.
  std::string push(std::string_view arguments);
  /// The rest of the text once the arguments have ended, also if they were cut.
  std::string finish();

 private:
  enum class State { kHead, kText, kDone };
  void take_text(std::string& text);

  State state_ = State::kHead;
  std::string all_;   // everything until the text begins
  std::string held_;  // of the text: an unfinished escape
};

}  // namespace ft::api
