// Converts Anthropic messages for the chat template: content blocks become texts, tool calls, tool results,
// and reasoning. Blocks of other services (server tools, redacted thinking, containers) are left out and
// counted. A compaction block replaces everything before it by its summary. Images become parts
// (api/image_parts.h); other content (PDF) is refused with its path, and so is a block of an unknown type. A
// system message keeps its position. Source: Anthropic's API reference, Messages. Errors name the block
// ("messages[2].content[0]").
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "api/anthropic/content_blocks.h"
#include "api/json.h"
#include "api/notes.h"
#include "base/result.h"

namespace ft::api {

/// The tools that blocks of messages (tool_addition, tool_removal) have added and removed at the end.
struct ToolChanges {
  struct Definition {
    Json tool;  // as in `tools`
    std::string path;
  };
  std::vector<Definition> added;
  std::set<std::string> removed;  // names
};

/// Messages for the template, and the settings that they carry.
struct AnthropicConversation {
  Json messages = Json::array();
  ToolChanges changes;
  std::string effort;  // of the last system message with one, or empty
  Notes notes;
};

/// Each text of a user's turn or a tool result is on its own line.
Result<AnthropicConversation> read_anthropic_messages(const Json& list, const std::string& path);

/// The top-level system: a text or a list of text blocks. Leading lines that a client changes with every
/// request ("x-anthropic-billing-header: ...", "cch=...") are removed, so that prefixes stay the same.
Result<std::string> read_system(const Json& system, const std::string& path, Notes& notes);

}  // namespace ft::api
