// The chat format of Qwen3.5 and later.
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kQwen35Format;
/// For templates that show no known form of calls: calls are parsed but cannot be enforced.
extern const ChatFormat kQwen35FormatWithoutGrammar;

bool is_qwen3_5_template(std::string_view source);

}  // namespace ft
