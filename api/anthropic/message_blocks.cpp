#include "api/anthropic/message_blocks.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/image_parts.h"

namespace ft::api {
namespace {

/// Appends on a new line.
void add_text(std::string& all, std::string_view text) {
  if (!all.empty() && !text.empty() && all.back() != '\n') all += '\n';
  all += text;
}

Result<std::string> needed_text(const Fields& fields, std::string_view name) {
  FT_ASSIGN(const auto text, fields.text(name));
  if (!text) return wrong(fields.at(name), "is missing");
  return *text;
}

/// The blocks of a content; each one is checked to be an object with a type.
Result<const Json*> block_list(const Json& content, const std::string& path) {
  if (!content.is_array()) {
    return wrong(path, fmt::format("must be a string or a list of blocks, found {}", kind_of(content)));
  }
  if (content.size() > kMaxBlocks) {
    return wrong(path, fmt::format("at most {} blocks are allowed, found {}", kMaxBlocks, content.size()));
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", path, i);
    if (!content[i].is_object()) {
      return wrong(here, fmt::format("must be an object, found {}", kind_of(content[i])));
    }
    FT_ASSIGN(const std::string type, needed_text(Fields(content[i], here), "type"));
    (void)type;
  }
  return &content;
}

Error no_text(const std::string& path, std::string_view what) {
  return Error{Code::kUnsupported,
               fmt::format("{}: this model reads text only; send the content without the {}", path, what),
               path};
}

Error unknown_block(const std::string& path, const std::string& type, std::string_view where) {
  return wrong(path, fmt::format("a block of type \"{}\" is not allowed {}", type, where));
}

/// An attribute of the tag around a document.
std::string attribute(const Fields& fields, const char* name) {
  const Json* value = fields.find(name);
  if (value == nullptr || !value->is_string()) return "";
  return fmt::format(" {}={}", name, dump(*value));
}

Result<std::string> texts_of(const Json& content, const std::string& path);

Result<std::string> document_text(const Fields& fields) {
  FT_ASSIGN(const Json* source, fields.object("source"));
  if (source == nullptr) return wrong(fields.at("source"), "is missing");
  const Fields inner(*source, fields.at("source"));
  FT_ASSIGN(const std::string type, needed_text(inner, "type"));
  std::string body;
  if (type == "text") {
    FT_ASSIGN(body, needed_text(inner, "data"));
  } else if (type == "content") {
    const Json* content = inner.find("content");
    if (content == nullptr) return wrong(inner.at("content"), "is missing");
    FT_ASSIGN(body, texts_of(*content, inner.at("content")));
  } else {
    return Error{Code::kUnsupported,
                 fmt::format("{}: documents are read as text only, found a source of type \"{}\"; send "
                             "{{\"type\": \"text\", \"media_type\": \"text/plain\", \"data\": ...}}",
                             inner.at("type"), type),
                 inner.at("type")};
  }
  std::string text = fmt::format("<document{}>\n", attribute(fields, "title"));
  FT_ASSIGN(const auto context, fields.text("context"));
  add_text(text, context.value_or(""));
  add_text(text, body);
  add_text(text, "</document>");
  return text;
}

Result<std::string> search_text(const Fields& fields) {
  const Json* content = fields.find("content");
  if (content == nullptr) return wrong(fields.at("content"), "is missing");
  FT_ASSIGN(const std::string body, texts_of(*content, fields.at("content")));
  std::string text =
      fmt::format("<search_result{}{}>\n", attribute(fields, "title"), attribute(fields, "source"));
  add_text(text, body);
  add_text(text, "</search_result>");
  return text;
}

/// The text of a block in a user's turn, a system prompt, or a tool result.
Result<std::string> text_of(const Json& block, const std::string& path) {
  const Fields fields(block, path);
  const std::string type = block["type"].get<std::string>();
  if (type == "text") return needed_text(fields, "text");
  if (type == "document") return document_text(fields);
  if (type == "search_result") return search_text(fields);
  if (type == "tool_reference") return std::string();  // only for Anthropic's tool search
  if (type == "image") return no_text(path, "image");
  return unknown_block(path, type, "here; use text");
}

Result<std::string> texts_of(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  FT_ASSIGN(const Json* blocks, block_list(content, path));
  std::string all;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    FT_ASSIGN(const std::string text, text_of((*blocks)[i], fmt::format("{}[{}]", path, i)));
    add_text(all, text);
  }
  return all;
}

/// A content as it grows: a text, or parts once it has an image.
class Content {
 public:
  /// A block of a user's turn or a tool's result.
  Status add(const Json& block, const std::string& path) {
    if (block["type"] == "image") {
      FT_ASSIGN(Json image, read_anthropic_image(block, path));
      flush();
      parts_.push_back(std::move(image));
      return {};
    }
    FT_ASSIGN(const std::string more, text_of(block, path));
    add_text(text_, more);
    return {};
  }
  Json finish() {
    if (parts_.empty()) return std::exchange(text_, {});
    flush();
    return std::exchange(parts_, Json::array());
  }

 private:
  void flush() {
    if (!text_.empty()) parts_.push_back(Json{{"type", "text"}, {"text", std::exchange(text_, {})}});
  }
  std::string text_;  // after the last part
  Json parts_ = Json::array();
};

Result<Json> tool_result(const Json& block, const std::string& path) {
  const Fields fields(block, path);
  FT_ASSIGN(const std::string id, needed_text(fields, "tool_use_id"));
  FT_ASSIGN(const auto failed, fields.boolean("is_error"));
  Content all;
  const Json* content = fields.find("content");
  Json blocks = content != nullptr ? *content : Json::array();
  if (blocks.is_string()) blocks = Json::array({Json{{"type", "text"}, {"text", *content}}});
  FT_ASSIGN(const Json* list, block_list(blocks, fields.at("content")));
  for (std::size_t i = 0; i < list->size(); ++i)
    FT_TRY(all.add((*list)[i], fmt::format("{}[{}]", fields.at("content"), i)));
  Json result = all.finish();
  if (failed.value_or(false)) {
    if (result.is_string()) {
      const auto text = result.get<std::string>();
      result = text.empty() ? "Error" : "Error: " + text;
    } else {
      result.insert(result.begin(), Json{{"type", "text"}, {"text", "Error:"}});
    }
  }
  return Json{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(result)}};
}

/// A user's turn: texts and tool results in order; adjacent texts become one message.
Status add_user(const Json& content, const std::string& path, Json& messages) {
  if (content.is_string()) {
    messages.push_back(Json{{"role", "user"}, {"content", content}});
    return {};
  }
  FT_ASSIGN(const Json* blocks, block_list(content, path));
  Content all;
  bool any = blocks->empty();
  const auto flush = [&] {
    if (any) messages.push_back(Json{{"role", "user"}, {"content", all.finish()}});
    any = false;
  };
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const Json& block = (*blocks)[i];
    const std::string here = fmt::format("{}[{}]", path, i);
    if (block["type"] == "tool_result") {
      flush();
      FT_ASSIGN(Json result, tool_result(block, here));
      messages.push_back(std::move(result));
      continue;
    }
    FT_TRY(all.add(block, here));
    any = true;
  }
  flush();
  return {};
}

Result<Json> tool_call(const Json& block, const std::string& path) {
  const Fields fields(block, path);
  FT_ASSIGN(const auto id, fields.text("id"));
  FT_ASSIGN(const std::string name, needed_text(fields, "name"));
  FT_ASSIGN(const Json* input, fields.object("input"));
  Json arguments = input != nullptr ? *input : Json::object();
  Json call{{"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
  if (id) call["id"] = *id;
  return call;
}

/// An assistant's turn: texts joined as they were generated, with calls and reasoning kept separate.
Status add_assistant(const Json& content, const std::string& path, Json& messages) {
  Json message{{"role", "assistant"}, {"content", content}};
  if (content.is_string()) {
    messages.push_back(std::move(message));
    return {};
  }
  FT_ASSIGN(const Json* blocks, block_list(content, path));
  std::string text, reasoning;
  Json calls = Json::array();
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const Json& block = (*blocks)[i];
    const std::string here = fmt::format("{}[{}]", path, i);
    const Fields fields(block, here);
    const std::string type = block["type"].get<std::string>();
    if (type == "text") {
      FT_ASSIGN(const std::string more, needed_text(fields, "text"));
      text += more;
    } else if (type == "thinking") {
      FT_ASSIGN(const std::string thought, needed_text(fields, "thinking"));
      add_text(reasoning, thought);
    } else if (type == "tool_use") {
      FT_ASSIGN(Json call, tool_call(block, here));
      calls.push_back(std::move(call));
    } else if (type == "redacted_thinking" || type == "server_tool_use" || type.ends_with("_tool_result")) {
      continue;  // belongs to another service; this model cannot read it
    } else if (type == "image") {
      return no_text(here, "image");
    } else {
      return unknown_block(here, type, "in an assistant's turn; use text, thinking or tool_use");
    }
  }
  message["content"] = std::move(text);
  if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  messages.push_back(std::move(message));
  return {};
}

/// The text without the leading lines that change with every request.
std::string without_billing(std::string text) {
  while (text.starts_with("x-anthropic-billing-header") || text.starts_with("cch=")) {
    const std::size_t end = text.find('\n');
    text.erase(0, end == std::string::npos ? text.size() : end + 1);
  }
  return text;
}

}  // namespace

Result<std::string> read_system(const Json& system, const std::string& path) {
  if (system.is_string()) return without_billing(system.get<std::string>());
  FT_ASSIGN(const Json* blocks, block_list(system, path));
  std::string all;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    FT_ASSIGN(const std::string text, text_of((*blocks)[i], fmt::format("{}[{}]", path, i)));
    add_text(all, all.empty() ? without_billing(text) : text);
  }
  return all;
}

Result<Json> read_anthropic_messages(const Json& list, const std::string& path) {
  Json messages = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", path, i);
    if (!list[i].is_object())
      return wrong(here, fmt::format("must be an object, found {}", kind_of(list[i])));
    const Fields fields(list[i], here);
    FT_ASSIGN(const auto role, fields.word("role", {"user", "assistant", "system"}));
    if (!role) return wrong(fields.at("role"), "is missing; each message has a role and a content");
    const Json* content = fields.find("content");
    if (content == nullptr) return wrong(fields.at("content"), "is missing");
    if (*role == "user") {
      FT_TRY(add_user(*content, fields.at("content"), messages));
    } else if (*role == "assistant") {
      FT_TRY(add_assistant(*content, fields.at("content"), messages));
    } else {
      FT_ASSIGN(const std::string text, read_system(*content, fields.at("content")));
      messages.push_back(Json{{"role", "system"}, {"content", text}});
    }
  }
  return messages;
}

}  // namespace ft::api
