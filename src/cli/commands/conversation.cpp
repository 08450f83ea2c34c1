#include "cli/commands/conversation.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/base64.h"
#include "base/json.h"
#include "base/text_file.h"
#include "images/picture.h"
#include "text/chat_template.h"
#include "text/json_text.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

Error wrong(const std::string& origin, const std::string& what) {
  return Error{Code::kInvalid, fmt::format("{}: {}", origin, what)};
}

Result<Json> parse(const std::string& text, const std::string& origin) {
  if (text.size() > kMaxMessagesBytes) {
    return wrong(origin, fmt::format("has {} bytes; the limit is {}", text.size(), kMaxMessagesBytes));
  }
  if (json_depth(text) > kMaxJsonDepth) {
    return wrong(origin, fmt::format("is nested deeper than {} levels; flatten it", kMaxJsonDepth));
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    return wrong(origin, fmt::format("invalid JSON: unexpected byte at offset {}", error.byte));
  } catch (const Json::exception&) {
    return wrong(origin, "invalid JSON: a number may be out of range");
  }
}

Result<Json> message_list(const std::string& text, const std::string& origin) {
  FT_ASSIGN(Json list, parse(text, origin));
  if (list.is_object() && list.contains("messages")) {
    Json inner = std::move(list["messages"]);
    list = std::move(inner);
  }
  if (!list.is_array() || list.empty())
    return wrong(origin, "expected a list of messages, [{\"role\": ..., ...}]");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& message = list[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return wrong(origin, fmt::format("message {} must be an object whose role is a string", i + 1));
    }
  }
  return list;
}

std::string dump(const Json& value, int indent = -1) { return write_json(value, indent); }

}  // namespace

namespace {

/// A text, or the images and then the text as parts.
Json content_of(const Message& message) {
  if (message.images.empty()) return message.content;
  Json parts = Json::array();
  for (const std::string& uri : message.images)
    parts.push_back(Json{{"type", "image_url"}, {"image_url", {{"url", uri}}}});
  parts.push_back(Json{{"type", "text"}, {"text", message.content}});
  return parts;
}

/// The inverse; false for anything else.
bool take_content(const Json& content, Message& message) {
  if (content.is_string()) {
    message.content = content.get<std::string>();
    return true;
  }
  if (!content.is_array()) return false;
  for (const Json& part : content) {
    const Json* text = part.is_object() && part.contains("text") ? &part["text"] : nullptr;
    const Json* image = part.is_object() && part.contains("image_url") ? &part["image_url"] : nullptr;
    const Json* uri =
        image != nullptr && image->is_object() && image->contains("url") ? &(*image)["url"] : nullptr;
    if (text != nullptr && text->is_string()) {
      message.content += text->get<std::string>();
    } else if (uri != nullptr && uri->is_string()) {
      message.images.push_back(uri->get<std::string>());
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<std::string> image_uri(const std::string& path) {
  FT_ASSIGN(const std::string file, read_binary_file(path, images::kMaxFileBytes));
  if (const auto decoded = images::decode(file); !decoded.ok()) return wrong(path, decoded.error().message);
  return "data:image;base64," + api::encode_base64(file);
}

Result<std::string> checked_messages(const std::string& text, const std::string& origin) {
  FT_ASSIGN(const Json list, message_list(text, origin));
  return dump(list);
}

Result<std::string> checked_tools(const std::string& text, const std::string& origin) {
  FT_ASSIGN(Json list, parse(text, origin));
  if (list.is_object() && list.contains("tools")) {
    Json inner = std::move(list["tools"]);
    list = std::move(inner);
  }
  if (!list.is_array())
    return wrong(origin, "expected a list of tools, [{\"type\": \"function\", \"function\": ...}]");
  Json tools = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    Json tool = list[i];
    if (tool.is_object() && !tool.contains("function")) {
      Json bare = std::move(tool);
      tool = Json{{"type", "function"}, {"function", std::move(bare)}};
    }
    const bool named = tool.is_object() && tool["function"].is_object() &&
                       tool["function"].contains("name") && tool["function"]["name"].is_string();
    if (!named) return wrong(origin, fmt::format("tool {} must have a function with a name", i + 1));
    tools.push_back(std::move(tool));
  }
  return dump(tools);
}

std::string messages_json(const std::vector<Message>& messages, bool indented) {
  Json list = Json::array();
  for (const Message& message : messages) {
    Json entry{{"role", message.role}, {"content", content_of(message)}};
    if (!message.reasoning.empty()) entry["reasoning_content"] = message.reasoning;
    list.push_back(std::move(entry));
  }
  return dump(list, indented ? 2 : -1);
}

Result<std::vector<Message>> plain_messages(const std::string& text, const std::string& origin) {
  FT_ASSIGN(const Json list, message_list(text, origin));
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& entry = list[i];
    Message message{entry["role"].get<std::string>(), "", ""};
    if (!entry.contains("content") || !take_content(entry["content"], message)) {
      return wrong(origin,
                   fmt::format("the content of message {} must be a string, or images and a text", i + 1));
    }
    if (entry.contains("reasoning_content") && entry["reasoning_content"].is_string()) {
      message.reasoning = entry["reasoning_content"].get<std::string>();
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace ft::cli
