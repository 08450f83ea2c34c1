// Tool calls of Mistral's models, after the special token [TOOL_CALLS]. Templates with [ARGS] (Small 3.2,
// Ministral 3, Devstral) write [TOOL_CALLS]NAME[ARGS]{..} for each call, older ones one JSON list of
// {"name": NAME, "arguments": {..}}. Reasoning models think between [THINK] and [/THINK].
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kMistralFormat;          // names and [ARGS]
extern const ChatFormat kMistralThinkingFormat;  // the same, with reasoning
extern const ChatFormat kMistralListFormat;      // a JSON list

bool is_mistral_template(std::string_view source);
bool is_mistral_thinking_template(std::string_view source);
bool is_mistral_list_template(std::string_view source);

}  // namespace ft
