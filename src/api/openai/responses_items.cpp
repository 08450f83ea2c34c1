#include "api/openai/responses_items.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/call_arguments.h"
#include "api/openai/chat_request.h"
#include "api/openai/client_calls.h"
#include "api/openai/sealed_reasoning.h"

namespace ft::api {
namespace {

/// Items of tools that another service runs, its summaries, and a client's own records.
bool is_left_out(std::string_view type) {
  constexpr std::array<std::string_view, 7> kEnds{
      "_call", "_output", "tools", "_approval_request", "_approval_response", "compaction", "_snapshot"};
  constexpr std::array<std::string_view, 5> kTypes{"compaction_trigger", "compaction_summary",
                                                   "configuration_update", "program", "other"};
  const auto ends = [type](std::string_view end) { return type.ends_with(end); };
  return std::ranges::any_of(kEnds, ends) || std::ranges::find(kTypes, type) != kTypes.end();
}

/// True for a list of parts of a message.
bool is_content(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& part) {
           return part.is_string() || (part.is_object() && part.contains("type"));
         });
}

/// The joined texts of the parts that have one.
std::string joined_texts(const Json* parts) {
  std::string joined;
  if (parts == nullptr || !parts->is_array()) return joined;
  for (const Json& part : *parts) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) continue;
    joined += part["text"].get<std::string>();
  }
  return joined;
}

/// Collects messages; the last one stays open for items of the same assistant turn.
class Conversation {
 public:
  Conversation(const OfferedNames& names, Notes& notes) : names_(names), notes_(notes) {}
  Status add(const Json& item, const std::string& path);
  Json finish() {
    close_thought();
    return std::move(messages_);
  }

 private:
  Status add_message(const Json& item, const std::string& path);
  void add_reasoning(const Fields& fields);
  Status add_call(const Fields& fields, bool custom);
  Status add_client_call(const Fields& fields, const ClientTool& tool);
  void push_call(const std::string& id, const std::string& name, Json arguments);
  Status add_output(const Fields& fields, const char* member);
  std::string found_tools(const Json* tools) const;
  Json& assistant();
  void close_thought() {
    if (!thought_.empty()) (void)assistant();
  }

  const OfferedNames& names_;
  Notes& notes_;
  Json messages_ = Json::array();
  std::string thought_;  // reasoning whose message has not arrived
};

/// The assistant message in progress: the last one, unless new reasoning starts another.
Json& Conversation::assistant() {
  const bool open = !messages_.empty() && messages_.back()["role"] == "assistant" && thought_.empty();
  if (!open) messages_.push_back(Json{{"role", "assistant"}, {"content", ""}});
  Json& message = messages_.back();
  if (!thought_.empty()) message["reasoning_content"] = std::exchange(thought_, {});
  return message;
}

Status Conversation::add_message(const Json& item, const std::string& path) {
  FT_ASSIGN(Json message, read_message(item, path));
  message.erase("name"), message.erase("tool_call_id"), message.erase("tool_calls");
  const bool is_answer = message["role"] == "assistant";
  if (!is_answer) {
    close_thought();
    messages_.push_back(std::move(message));
    return {};
  }
  if (message["content"].is_array()) message["content"] = joined_texts(&message["content"]);
  const bool fresh = messages_.empty() || messages_.back()["role"] != "assistant" ||
                     messages_.back().contains("tool_calls") || messages_.back()["content"] != "";
  if (fresh && thought_.empty()) {
    messages_.push_back(std::move(message));
  } else {
    assistant()["content"] = message["content"];
  }
  return {};
}

Status Conversation::add_call(const Fields& fields, bool custom) {
  FT_ASSIGN(const auto id, fields.text("call_id"));
  if (!id) return wrong(fields.at("call_id"), "is missing; it ties the call to its output");
  FT_ASSIGN(const auto name, fields.text("name"));
  if (!name) return wrong(fields.at("name"), "is missing");
  FT_ASSIGN(const auto space, fields.text("namespace"));
  Json arguments;
  if (custom) {
    FT_ASSIGN(const auto text, fields.text("input"));
    arguments = Json{{"input", text.value_or("")}};
  } else {
    FT_ASSIGN(arguments, read_arguments(fields.find("arguments"), fields.at("arguments")));
  }
  push_call(*id, names_.of(space.value_or(""), *name), std::move(arguments));
  return {};
}

/// A call of a tool that is part of the client. A call that the service ran has no call_id.
Status Conversation::add_client_call(const Fields& fields, const ClientTool& tool) {
  FT_ASSIGN(const auto id, fields.text("call_id"));
  if (!id) {
    ++notes_.skipped[std::string(tool.call)];
    return {};
  }
  FT_ASSIGN(Json arguments, read_arguments(fields.find(tool.arguments), fields.at(tool.arguments)));
  push_call(*id, names_.of_client_tool(std::string(tool.type)), std::move(arguments));
  return {};
}

void Conversation::push_call(const std::string& id, const std::string& name, Json arguments) {
  assistant()["tool_calls"].push_back(Json{
      {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

/// The offered names of the tools that a search has found; their definitions are among the tools.
std::string Conversation::found_tools(const Json* tools) const {
  Json found = Json::array();
  const auto add = [&](const Json& tool, const std::string& space) {
    const Json name = tool.is_object() ? tool.value("name", Json()) : Json();
    if (name.is_string()) found.push_back(names_.of(space, name.get<std::string>()));
  };
  for (const Json& tool : tools != nullptr && tools->is_array() ? *tools : Json::array()) {
    const bool space = tool.is_object() && tool.value("type", Json()) == "namespace" &&
                       tool.value("name", Json()).is_string() && tool.value("tools", Json()).is_array();
    if (!space) {
      add(tool, "");
      continue;
    }
    for (const Json& inner : tool["tools"]) add(inner, tool["name"].get<std::string>());
  }
  return fmt::format("Found tools: {}", dump(found));
}

/// An output is a text, parts, or the tool's native form.
Status Conversation::add_output(const Fields& fields, const char* member) {
  FT_ASSIGN(auto id, fields.text("call_id"));
  if (!id) {
    FT_ASSIGN(id, fields.text("id"));  // local_shell_call_output has no other
  }
  if (!id) return wrong(fields.at("call_id"), "is missing; it ties the output to its call");
  const Json* output = fields.find(member);
  if (output == nullptr) output = fields.find("status");
  const bool text = output != nullptr && output->is_string();
  const bool readable =
      text || (output != nullptr && member == std::string_view("output") && is_content(*output));
  Json content = output == nullptr ? Json("") : readable ? *output : Json(dump(*output));
  if (member == std::string_view("tools")) content = found_tools(output);
  FT_ASSIGN(Json read, read_content(content, fields.at(member)));
  close_thought();
  messages_.push_back(Json{{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(read)}});
  return {};
}

/// A thought that this server has sealed, or plain text. Sealed content of another service is unreadable.
void Conversation::add_reasoning(const Fields& fields) {
  std::string text;
  if (const Json* sealed = fields.find("encrypted_content"); sealed != nullptr && sealed->is_string()) {
    const std::optional<std::string> opened = open_reasoning(sealed->get<std::string>());
    if (opened) text = *opened;
    if (!opened) ++notes_.skipped["reasoning.encrypted_content"];
  }
  if (text.empty()) text = joined_texts(fields.find("content"));
  if (text.empty()) text = joined_texts(fields.find("summary"));
  close_thought();
  thought_ = std::move(text);
}

Status Conversation::add(const Json& item, const std::string& path) {
  if (!item.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(item)));
  const Fields fields(item, path);
  FT_ASSIGN(const auto type, fields.text("type"));
  if (!type || *type == "message") return add_message(item, path);
  if (*type == "reasoning") {
    add_reasoning(fields);
    return {};
  }
  if (*type == "function_call" || *type == "custom_tool_call") {
    return add_call(fields, *type == "custom_tool_call");
  }
  if (*type == "function_call_output" || *type == "custom_tool_call_output") {
    return add_output(fields, "output");
  }
  if (const ClientTool* tool = client_tool_of_call(*type)) return add_client_call(fields, *tool);
  const ClientTool* tool = client_tool_of_output(*type);
  if (tool != nullptr && (fields.find("call_id") != nullptr || tool->type == "local_shell")) {
    return add_output(fields, tool->result);
  }
  if (is_left_out(*type)) {
    ++notes_.skipped[*type];
    return {};
  }
  return wrong(fields.at("type"),
               fmt::format("unknown item type \"{}\"; use message, reasoning, function_call, "
                           "function_call_output, custom_tool_call or custom_tool_call_output",
                           *type));
}

}  // namespace

Result<Json> read_input(const Json& input) {
  if (input.is_string())
    return Json::array({Json{{"type", "message"}, {"role", "user"}, {"content", input}}});
  if (!input.is_array()) {
    return wrong("input", fmt::format("must be a string or a list of items, found {}", kind_of(input)));
  }
  if (input.size() > kMaxItems) {
    return wrong("input", fmt::format("at most {} are allowed, found {}", kMaxItems, input.size()));
  }
  return input;
}

Result<Json> messages_of(const Json& items, std::size_t skipped, const OfferedNames& names, Notes& notes) {
  Conversation conversation(names, notes);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path =
        i < skipped ? fmt::format("previous_response_id[{}]", i) : fmt::format("input[{}]", i - skipped);
    FT_TRY(conversation.add(items[i], path));
  }
  return conversation.finish();
}

}  // namespace ft::api
