// Converts items of the Responses API to messages of a conversation: message, reasoning, calls of functions,
// custom tools and tools that the client runs (shell, apply_patch, tool_search), and the outputs of calls.
// Consecutive reasoning, text, and calls form one assistant message. Items of tools that another service
// runs, and a client's own records, are left out and counted. Source: OpenAI's API reference. Errors name
// the item.
#pragma once

#include "api/fields.h"
#include "api/notes.h"
#include "api/openai/responses_tools.h"

namespace ft::api {

inline constexpr std::size_t kMaxItems = 16'384;

/// Converts a client's `input`, a text or a list, to a list of items.
Result<Json> read_input(const Json& input);

/// Converts items for the chat template. The first `skipped` items come from earlier answers; errors count
/// from the item after them. Calls have the names under which their tools are offered.
Result<Json> messages_of(const Json& items, std::size_t skipped, const OfferedNames& names, Notes& notes);

}  // namespace ft::api
