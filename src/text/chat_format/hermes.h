// Qwen3.5's tags around calls in JSON, as Hermes and older Qwen models write them:
// {"name": NAME, "arguments": {...}}.
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kHermesFormat;

bool is_hermes_template(std::string_view source);

}  // namespace ft
