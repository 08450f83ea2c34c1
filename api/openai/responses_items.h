// Converts items of the Responses API to messages of a conversation: message, reasoning, function_call,
// custom_tool_call, and the outputs of calls. Consecutive reasoning, text, and calls form one assistant
// message. Items of hosted tools are left out because those tools cannot run here. Source: OpenAI's API
// reference. Errors name the item.
#pragma once

#include "api/fields.h"

namespace ft::api {

inline constexpr std::size_t kMaxItems = 16'384;

/// Converts a client's `input`, a text or a list, to a list of items.
Result<Json> read_input(const Json& input);

/// Converts items for the chat template. The first `skipped` items come from earlier answers; errors count
/// from the item after them.
Result<Json> messages_of(const Json& items, std::size_t skipped);

}  // namespace ft::api
