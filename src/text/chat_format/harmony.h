// The chat format of gpt-oss (harmony): an answer is messages with headers. The channel of a header says what
// its message is: analysis is reasoning, final is content. A recipient functions.NAME makes it a call.
// Source: the openai-harmony documentation and the chat template of gpt-oss.
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kHarmonyFormat;

bool is_harmony_template(std::string_view source);

}  // namespace ft
