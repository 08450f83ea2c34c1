#include "api/anthropic/content_blocks.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ft::api {

void add_text(std::string& all, std::string_view text) {
  if (!all.empty() && !text.empty() && all.back() != '\n') all += '\n';
  all += text;
}

Result<std::string> needed_text(const Fields& fields, std::string_view name) {
  FT_ASSIGN(const auto text, fields.text(name));
  if (!text) return wrong(fields.at(name), "is missing");
  return *text;
}

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

namespace {

/// An attribute of the tag around a document.
std::string attribute(const Fields& fields, const char* name) {
  const Json* value = fields.find(name);
  if (value == nullptr || !value->is_string()) return "";
  return fmt::format(" {}={}", name, dump(*value));
}

Result<std::string> document_text(const Fields& fields, Notes& notes) {
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
    FT_ASSIGN(body, texts_of(*content, inner.at("content"), notes));
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

Result<std::string> search_text(const Fields& fields, Notes& notes) {
  const Json* content = fields.find("content");
  if (content == nullptr) return wrong(fields.at("content"), "is missing");
  FT_ASSIGN(const std::string body, texts_of(*content, fields.at("content"), notes));
  std::string text =
      fmt::format("<search_result{}{}>\n", attribute(fields, "title"), attribute(fields, "source"));
  add_text(text, body);
  add_text(text, "</search_result>");
  return text;
}

/// The tabs of a browser after a call, one a line, then what changed.
Result<std::string> browser_text(const Fields& fields) {
  FT_ASSIGN(const Json* tabs, fields.array("tabs", kMaxBlocks));
  FT_ASSIGN(const Json* changes, fields.array("state_changes", kMaxBlocks));
  std::string text = tabs == nullptr || tabs->empty() ? "No tab is open." : "Open tabs:";
  for (const Json& tab : tabs != nullptr ? *tabs : Json::array()) {
    const bool active = tab.is_object() && tab.value("active", Json()) == true;
    Json shown = tab;
    if (shown.is_object()) shown.erase("active");
    add_text(text, fmt::format("{}{}", dump(shown), active ? " (active)" : ""));
  }
  for (const Json& change : changes != nullptr ? *changes : Json::array()) add_text(text, dump(change));
  return text;
}

}  // namespace

bool is_foreign_block(std::string_view type) {
  constexpr std::array<std::string_view, 10> kForeign{
      "redacted_thinking", "server_tool_use", "mcp_tool_use",   "mcp_tool_result", "mcp_tool_listing",
      "container_upload",  "fallback",        "tool_reference", "connector_text",  "advisor"};
  return std::ranges::find(kForeign, type) != kForeign.end() || type.ends_with("_tool_result") ||
         type.ends_with("_tool_use");
}

Result<std::string> text_of(const Json& block, const std::string& path, Notes& notes) {
  const Fields fields(block, path);
  const std::string type = block["type"].get<std::string>();
  if (type == "text") return needed_text(fields, "text");
  if (type == "document") return document_text(fields, notes);
  if (type == "search_result") return search_text(fields, notes);
  if (type == "browser_state") return browser_text(fields);
  if (type == "image") return no_text(path, "image");
  if (!is_foreign_block(type)) return unknown_block(path, type, "here; use text");
  ++notes.skipped[type];
  return std::string();
}

Result<std::string> texts_of(const Json& content, const std::string& path, Notes& notes) {
  if (content.is_string()) return content.get<std::string>();
  FT_ASSIGN(const Json* blocks, block_list(content, path));
  std::string all;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    FT_ASSIGN(const std::string text, text_of((*blocks)[i], fmt::format("{}[{}]", path, i), notes));
    add_text(all, text);
  }
  return all;
}

}  // namespace ft::api
