#include "speculation/context_room.h"

#include <fmt/format.h>

namespace ft {

Error too_long(std::string_view what, std::string_view found, std::int64_t context) {
  // Clients compact when they read "prompt is too long: N tokens > M maximum" (Claude Code) or "maximum
  // context length" (LiteLLM).
  return {Code::kTooLong,
          fmt::format("{} is too long: {} > {} maximum; the maximum context length is {} tokens, of which "
                      "the answer needs at least one; shorten it or raise --context",
                      what, found, context - 1, context)};
}

Status check_room(std::int64_t tokens, std::int64_t context, std::string_view what) {
  if (tokens < context) return {};
  return too_long(what, fmt::format("{} tokens", tokens), context);
}

}  // namespace ft
