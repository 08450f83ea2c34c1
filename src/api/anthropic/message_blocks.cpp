#include "api/anthropic/message_blocks.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/anthropic/content_blocks.h"
#include "api/call_arguments.h"
#include "api/call_name.h"
#include "api/fields.h"
#include "api/image_parts.h"

namespace ft::api {
namespace {

/// A content as it grows: a text, or parts once it has an image.
class Content {
 public:
  explicit Content(Notes& notes) : notes_(notes) {}
  /// A block of a user's turn or a tool's result.
  Status add(const Json& block, const std::string& path) {
    if (block["type"] == "image") {
      FT_ASSIGN(Json image, read_anthropic_image(block, path));
      flush();
      parts_.push_back(std::move(image));
      return {};
    }
    FT_ASSIGN(const std::string more, text_of(block, path, notes_));
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
  Notes& notes_;
  std::string text_;  // after the last part
  Json parts_ = Json::array();
};

Result<Json> tool_result(const Json& block, const std::string& path, Notes& notes) {
  const Fields fields(block, path);
  FT_ASSIGN(const std::string id, needed_text(fields, "tool_use_id"));
  FT_ASSIGN(const auto failed, fields.boolean("is_error"));
  Content all(notes);
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

Result<Json> tool_call(const Json& block, const std::string& path) {
  const Fields fields(block, path);
  FT_ASSIGN(const auto id, fields.text("id"));
  FT_ASSIGN(const std::string name, needed_text(fields, "name"));
  FT_ASSIGN(const auto toolset, fields.text("toolset_name"));
  FT_ASSIGN(Json arguments, read_arguments(fields.find("input"), fields.at("input")));
  Json call{
      {"type", "function"},
      {"function", {{"name", joined_name(toolset.value_or(""), name)}, {"arguments", std::move(arguments)}}}};
  if (id) call["id"] = *id;
  return call;
}

/// The text without the leading lines that change with every request.
std::string without_billing(std::string text) {
  while (text.starts_with("x-anthropic-billing-header") || text.starts_with("cch=")) {
    const std::size_t end = text.find('\n');
    text.erase(0, end == std::string::npos ? text.size() : end + 1);
  }
  return text;
}

/// An assistant's turn as it grows: texts joined as they were generated, with calls and reasoning apart.
struct AssistantTurn {
  std::string text, reasoning;
  Json calls = Json::array();

  /// LangChain for JavaScript writes a streamed call as two blocks: one with id and name, then its input.
  bool takes_input(const Json& block) {
    if (calls.empty() || block.contains("id") || block.contains("name")) return false;
    Json& arguments = calls.back()["function"]["arguments"];
    const Json input = block.value("input", Json());
    if (!arguments.empty() || !input.is_object()) return false;
    arguments = input;
    return true;
  }

  Json finish() {
    Json message{{"role", "assistant"}, {"content", std::move(text)}};
    if (!reasoning.empty()) message["reasoning_content"] = std::move(reasoning);
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    return message;
  }
};

class Reader {
 public:
  Status add(const Json& message, const std::string& path, bool answered);
  const AnthropicConversation& read() const { return all_; }

 private:
  Status add_user(const Json& content, const std::string& path);
  Status add_assistant(const Json& content, const std::string& path);
  Status add_assistant_block(const Json& block, const std::string& path, AssistantTurn& turn);
  Status add_system(const Json& message, const std::string& path, bool answered);
  Status change_tools(const Json& block, const std::string& path);
  Status compact(const Json& block, const std::string& path, AssistantTurn& turn);

  Json& messages() { return all_.messages; }

  AnthropicConversation all_;
};

/// A user's turn: texts and tool results in order; adjacent texts become one message.
Status Reader::add_user(const Json& content, const std::string& path) {
  if (content.is_string()) {
    messages().push_back(Json{{"role", "user"}, {"content", content}});
    return {};
  }
  FT_ASSIGN(const Json* blocks, block_list(content, path));
  Content all(all_.notes);
  bool any = blocks->empty();
  const auto flush = [&] {
    if (any) messages().push_back(Json{{"role", "user"}, {"content", all.finish()}});
    any = false;
  };
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const Json& block = (*blocks)[i];
    const std::string here = fmt::format("{}[{}]", path, i);
    if (block["type"] == "tool_result") {
      flush();
      FT_ASSIGN(Json result, tool_result(block, here, all_.notes));
      messages().push_back(std::move(result));
      continue;
    }
    if (block["type"] == "tool_addition" || block["type"] == "tool_removal") {
      FT_TRY(change_tools(block, here));
      continue;
    }
    FT_TRY(all.add(block, here));
    any = true;
  }
  flush();
  return {};
}

/// {tool: {type, name or definition}}. A reference to a tool of an MCP server is left out: no such tool is
/// offered here.
Status Reader::change_tools(const Json& block, const std::string& path) {
  FT_ASSIGN(const Json* tool, Fields(block, path).object("tool"));
  if (tool == nullptr) return wrong(path + ".tool", "is missing");
  const Fields fields(*tool, path + ".tool");
  FT_ASSIGN(const std::string kind, needed_text(fields, "type"));
  const bool adds = block["type"] == "tool_addition";
  ++all_.notes.skipped[block["type"].get<std::string>()];
  if (kind == "tool_definition" && adds) {
    FT_ASSIGN(const Json* definition, fields.object("definition"));
    if (definition == nullptr) return wrong(fields.at("definition"), "is missing");
    if (const Json name = definition->value("name", Json()); name.is_string()) {
      all_.changes.removed.erase(name.get<std::string>());
    }
    all_.changes.added.push_back({*definition, fields.at("definition")});
    return {};
  }
  if (kind != "tool_reference") return {};
  FT_ASSIGN(const std::string name, needed_text(fields, "name"));
  if (adds) {
    all_.changes.removed.erase(name);
  } else {
    all_.changes.removed.insert(name);
  }
  return {};
}

/// The block's summary replaces everything before it. A compaction that failed has no summary.
Status Reader::compact(const Json& block, const std::string& path, AssistantTurn& turn) {
  const Fields fields(block, path);
  FT_ASSIGN(const auto summary, fields.text("content"));
  FT_ASSIGN(const Json* changes, fields.array("tool_changes", kMaxBlocks));
  if (changes != nullptr) {
    FT_ASSIGN(const Json* blocks, block_list(*changes, fields.at("tool_changes")));
    for (std::size_t i = 0; i < blocks->size(); ++i)
      FT_TRY(change_tools((*blocks)[i], fmt::format("{}[{}]", fields.at("tool_changes"), i)));
  }
  if (!summary || summary->empty()) {
    ++all_.notes.skipped["compaction"];
    return {};
  }
  turn = {};
  const std::string text = fmt::format("Summary of the conversation until now:\n\n{}", *summary);
  messages() = Json::array({Json{{"role", "user"}, {"content", text}}});
  return {};
}

Status Reader::add_assistant_block(const Json& block, const std::string& path, AssistantTurn& turn) {
  const Fields fields(block, path);
  const std::string type = block["type"].get<std::string>();
  if (type == "text") {
    FT_ASSIGN(const std::string more, needed_text(fields, "text"));
    turn.text += more;
  } else if (type == "thinking") {
    FT_ASSIGN(const std::string thought, needed_text(fields, "thinking"));
    add_text(turn.reasoning, thought);
  } else if (type == "tool_use") {
    if (turn.takes_input(block)) return {};
    FT_ASSIGN(Json call, tool_call(block, path));
    turn.calls.push_back(std::move(call));
  } else if (type == "compaction") {
    return compact(block, path, turn);
  } else if (type == "tool_addition" || type == "tool_removal") {
    return change_tools(block, path);
  } else if (type == "image") {
    return no_text(path, "image");
  } else if (is_foreign_block(type)) {
    ++all_.notes.skipped[type];
  } else {
    return unknown_block(path, type, "in an assistant's turn; use text, thinking or tool_use");
  }
  return {};
}

Status Reader::add_assistant(const Json& content, const std::string& path) {
  if (content.is_string()) {
    messages().push_back(Json{{"role", "assistant"}, {"content", content}});
    return {};
  }
  FT_ASSIGN(const Json* blocks, block_list(content, path));
  AssistantTurn turn;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    FT_TRY(add_assistant_block((*blocks)[i], fmt::format("{}[{}]", path, i), turn));
  }
  messages().push_back(turn.finish());
  return {};
}

/// A system message has texts, changes of tools, an effort, or several of these. `answered`: a user's turn
/// follows it, which ends texts with clear_at.
Status Reader::add_system(const Json& message, const std::string& path, bool answered) {
  const Fields fields(message, path);
  FT_ASSIGN(const Json* config, fields.object("output_config"));
  if (config != nullptr) {
    FT_ASSIGN(const auto effort, Fields(*config, fields.at("output_config")).text("effort"));
    if (effort) all_.effort = *effort;
  }
  const Json* content = fields.find("content");
  if (content == nullptr && config != nullptr) return {};
  if (content == nullptr) return wrong(fields.at("content"), "is missing");
  FT_ASSIGN(const auto clear, fields.text("clear_at"));
  Json texts = *content;
  if (content->is_array()) {
    FT_ASSIGN(const Json* blocks, block_list(*content, fields.at("content")));
    texts = Json::array();
    for (std::size_t i = 0; i < blocks->size(); ++i) {
      const Json& block = (*blocks)[i];
      const bool change = block["type"] == "tool_addition" || block["type"] == "tool_removal";
      if (change) FT_TRY(change_tools(block, fmt::format("{}[{}]", fields.at("content"), i)));
      // A change keeps its place as an empty text, so that errors count right.
      texts.push_back(change ? Json{{"type", "text"}, {"text", ""}} : block);
    }
  }
  FT_ASSIGN(const std::string text, read_system(texts, fields.at("content"), all_.notes));
  const bool cleared = answered && clear == "next_user_message";
  if (!cleared && (!text.empty() || content->is_string())) {
    messages().push_back(Json{{"role", "system"}, {"content", text}});
  }
  return {};
}

Status Reader::add(const Json& message, const std::string& path, bool answered) {
  if (!message.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(message)));
  const Fields fields(message, path);
  FT_ASSIGN(const auto role, fields.word("role", {"user", "assistant", "system"}));
  if (!role) return wrong(fields.at("role"), "is missing; each message has a role and a content");
  if (*role == "system") return add_system(message, path, answered);
  const Json* content = fields.find("content");
  if (content == nullptr) return wrong(fields.at("content"), "is missing");
  if (*role == "user") return add_user(*content, fields.at("content"));
  return add_assistant(*content, fields.at("content"));
}

}  // namespace

Result<std::string> read_system(const Json& system, const std::string& path, Notes& notes) {
  if (system.is_string()) return without_billing(system.get<std::string>());
  FT_ASSIGN(const Json* blocks, block_list(system, path));
  std::string all;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    FT_ASSIGN(const std::string text, text_of((*blocks)[i], fmt::format("{}[{}]", path, i), notes));
    add_text(all, all.empty() ? without_billing(text) : text);
  }
  return all;
}

Result<AnthropicConversation> read_anthropic_messages(const Json& list, const std::string& path) {
  std::size_t last_user = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_object() && list[i].contains("role") && list[i]["role"] == "user") last_user = i;
  }
  Reader reader;
  for (std::size_t i = 0; i < list.size(); ++i) {
    FT_TRY(reader.add(list[i], fmt::format("{}[{}]", path, i), i < last_user));
  }
  return reader.read();
}

}  // namespace ft::api
