// Tool calls of Granite 3.x: <|tool_call|> or <tool_call>, then one JSON list of
// {"name": NAME, "arguments": {..}} that ends the answer. Granite 3.3 reasons if the template's variable
// `thinking` is true: <think>..</think>, then the content in <response>..</response>. Granite 4 writes
// Hermes' form.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kGraniteFormat, kGraniteThinkingFormat;

bool is_granite_template(std::string_view source);
bool is_granite_thinking_template(std::string_view source);

/// Sets `thinking` as enable_thinking, unless the request sets it.
void prepare_granite(nlohmann::ordered_json& context);
/// The same, and calls become content: published templates show nothing else of a message.
void prepare_granite_calls(nlohmann::ordered_json& context);

}  // namespace ft
