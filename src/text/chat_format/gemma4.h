// The chat format of Gemma 4: thoughts in a channel, calls as call:NAME{key:value,...}.
#pragma once

#include "text/chat_format.h"

namespace ft {

extern const ChatFormat kGemma4Format;

}  // namespace ft
