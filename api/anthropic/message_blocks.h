// Converts Anthropic messages for the chat template: content blocks become texts, tool calls, tool results,
// and reasoning. Parts for other services (server tools, redacted thinking, cache marks) are left out. Images
// become parts (api/image_parts.h); other content (PDF) is refused with its path. A system message keeps its
// position. Source: Anthropic's API reference, Messages. Errors name the block ("messages[2].content[0]").
#pragma once

#include <string>

#include "api/json.h"
#include "base/result.h"

namespace ft::api {

inline constexpr std::size_t kMaxBlocks = 16'384;  // in one content

/// Each text of a user's turn or a tool result is on its own line.
Result<Json> read_anthropic_messages(const Json& list, const std::string& path);

/// The top-level system: a text or a list of text blocks. Leading lines that a client changes with every
/// request ("x-anthropic-billing-header: ...", "cch=...") are removed, so that prefixes stay the same.
Result<std::string> read_system(const Json& system, const std::string& path);

}  // namespace ft::api
