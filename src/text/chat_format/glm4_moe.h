// The chat format of GLM-4.5 and later.
#pragma once

#include <string_view>

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kGlm4MoeFormat;

bool is_glm4_moe_template(std::string_view source);

}  // namespace ft
