// Qwen3.5's tags around calls in JSON, as Hermes and older Qwen models write them:
// {"name": NAME, "arguments": {...}}.
#pragma once

#include <string>
#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kHermesFormat;

/// The grammar of a function's arguments in JSON, for the formats whose calls have them.
CallBody json_arguments(const ToolFunction& function, const std::string& prefix, std::string& lark);

/// Appends the rule `prefix`_json: an object whose one parameter is a text that follows `format`. Only a
/// regex can be kept in a JSON string.
Status add_json_text_rule(const std::string& tool, const TextFormat& format, const std::string& prefix,
                          std::string& lark);

bool is_hermes_template(std::string_view source);

}  // namespace ft
