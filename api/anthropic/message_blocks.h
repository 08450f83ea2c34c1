// Anthropic's messages as the chat template wants them: blocks of content become texts, tool calls, tool
// results and reasoning. What belongs to other services (server tools, redacted thinking, cache marks) is
// left out; what is no text (images, PDF) is refused with its place. A system message stays where it is.
// Source: Anthropic's API reference, Messages. Pure. Thread: any. Cost: linear in the blocks.
// Errors: kInvalid, kUnsupported naming the block ("messages[2].content[0]").
#pragma once

#include <string>

#include "api/json.h"
#include "base/result.h"

namespace ft::api {

inline constexpr std::size_t kMaxBlocks = 16'384;  // of one content

/// The texts of a user's turn or of a tool's result stand on lines of their own.
Result<Json> read_anthropic_messages(const Json& list, const std::string& path);

/// The top level's system: a text or a list of text blocks. First lines that a client changes with every
/// request ("x-anthropic-billing-header: ...", "cch=...") are taken off: prefixes stay the same.
Result<std::string> read_system(const Json& system, const std::string& path);

}  // namespace ft::api
