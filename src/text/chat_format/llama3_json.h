// Tool calls of Llama 3.1 to 3.3: {"name": NAME, "parameters": {...}} is the whole answer, sometimes after
// <|python_tag|>.
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kLlama3JsonFormat;

bool is_llama3_json_template(std::string_view source);

}  // namespace ft
