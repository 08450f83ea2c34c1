// Converts items of the Responses API to messages of a conversation: message, reasoning, calls of functions,
// custom tools and tools that the client runs (shell, apply_patch, tool_search), and the outputs of calls.
// Consecutive reasoning, text, and calls form one assistant message. Items of tools that another service
// runs, and a client's own records, are left out and counted. Source: OpenAI's API reference. Errors name
// the item.
#pragma once

#include "api/fields.h"
#include "api/notes.h"

namespace ft::api {

inline constexpr std::size_t kMaxItems = 16'384;

/// Converts a client's `input`, a text or a list, to a list of items.
Result<Json> read_input(const Json& input);

/// Converts items for the chat template. The first `skipped` items come from earlier answers; errors count
/// from the item after them.
Result<Json> messages_of(const Json& items, std::size_t skipped, Notes& notes);

/// Appends the functions and custom tools that items have brought (tool_search_output, additional_tools) to
/// the tools of the request, once each.
void add_tools_of(const Json& items, Json& tools);

}  // namespace ft::api
