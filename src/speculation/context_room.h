// The one check that a prompt fits the context, and its error, for every source of prompts.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace ft {

/// kTooLong unless one token more than `tokens` fits into `context`. `what` names the text in the sentence.
Status check_room(std::int64_t tokens, std::int64_t context, std::string_view what = "the prompt");

/// The same error if the tokens need not be counted. `found`: "at least 600 tokens (4096 bytes)".
Error too_long(std::string_view what, std::string_view found, std::int64_t context);

}  // namespace ft
