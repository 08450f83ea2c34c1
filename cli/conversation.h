// Messages of a conversation as the chat template wants them: a JSON list of {role, content}. Read from files
// (--messages, --tools, /load), grown by chat, written by /save.
// Owner: a value. Thread: one. Cost: linear. Errors: kInvalid naming the file, the message's place and what
// was expected; nesting beyond kMaxJsonDepth is one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct Message {
  std::string role, content, reasoning;
};

/// Checks a list of messages (or an object with the key "messages"): each an object whose role is a text;
/// kept as it stands otherwise, because the template decides. Gives it back as compact JSON.
Result<std::string> checked_messages(const std::string& text, const std::string& origin);
/// Checks a list of tools: OpenAI's {"type": "function", "function": {...}} or the bare function. Compact
/// JSON of the first form.
Result<std::string> checked_tools(const std::string& text, const std::string& origin);

/// JSON of plain messages, for the template and for /save.
std::string messages_json(const std::vector<Message>& messages, bool indented = false);
/// The reverse, for /load: contents must be texts.
Result<std::vector<Message>> plain_messages(const std::string& text, const std::string& origin);

}  // namespace ft::cli
