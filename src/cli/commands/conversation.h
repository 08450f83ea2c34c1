// Messages of a conversation as the chat template takes them: a JSON list of {role, content}. Read from files
// (--messages, --tools, /load), extended by chat, written by /save. An error names the file, the message's
// index and the expected value.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct Message {
  std::string role, content, reasoning;
  std::vector<std::string> images = {};  // data URIs, shown before the content
};

/// A picture's file as a data URI.
Result<std::string> image_uri(const std::string& path);

/// Checks a list of messages (or an object with the key "messages"): each must be an object whose role is a
/// string; the template checks the rest. Returns it as compact JSON.
Result<std::string> checked_messages(const std::string& text, const std::string& origin);
/// Checks a list of tools: OpenAI's {"type": "function", "function": {...}} or the bare function. Returns
/// compact JSON of the first form.
Result<std::string> checked_tools(const std::string& text, const std::string& origin);

/// Messages as JSON, for the template and for /save.
std::string messages_json(const std::vector<Message>& messages, bool indented = false);
/// The inverse, for /load: contents must be strings, or images and a text.
Result<std::vector<Message>> plain_messages(const std::string& text, const std::string& origin);

}  // namespace ft::cli
