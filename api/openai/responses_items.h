// Items of the Responses API as messages of a conversation: message, reasoning, function_call and its output,
// custom_tool_call and its output. Reasoning, text and calls that follow each other are one assistant
// message. Items of hosted tools, which cannot run here, are left out. Source: OpenAI's API reference. Pure.
// Thread: any. Cost: linear. Errors: kInvalid, and kUnsupported for images, with the item.
#pragma once

#include "api/fields.h"

namespace ft::api {

inline constexpr std::size_t kMaxItems = 16'384;

/// `input` as clients write it, a text or a list, as a list of items.
Result<Json> read_input(const Json& input);

/// As the chat template wants them. `skipped` items at the front come from earlier answers; errors count
/// from there.
Result<Json> messages_of(const Json& items, std::size_t skipped);

}  // namespace ft::api
