// Tool calls of Granite 3.x: <|tool_call|> or <tool_call>, then one JSON list of
// {"name": NAME, "arguments": {..}} that ends the answer. Granite 4 writes Hermes' form.
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kGraniteFormat;

bool is_granite_template(std::string_view source);

}  // namespace ft
