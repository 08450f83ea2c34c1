// Gemma 4's `assistant`: four small layers of queries over the keys and values of the target itself, which
// draft one token after the other. Source: transformers' Gemma4AssistantForCausalLM.
#pragma once

#include "models/draft_network.h"

namespace ft::assistant {

extern const DraftFormat kFormat;

}  // namespace ft::assistant
