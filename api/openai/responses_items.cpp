#include "api/openai/responses_items.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/openai/chat_request.h"
#include "base/json.h"

namespace ft::api {
namespace {

bool ends_with_any(std::string_view type, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return type.ends_with(end); });
}

/// The joined texts of those parts that have one.
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
  Status add(const Json& item, const std::string& path);
  Json finish() {
    close_thought();
    return std::move(messages_);
  }

 private:
  Status add_message(const Json& item, const std::string& path);
  Status add_call(const Fields& fields, bool custom);
  Status add_output(const Fields& fields);
  Json& assistant();
  void close_thought() {
    if (!thought_.empty()) (void)assistant();
  }

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
  Json arguments = Json::object();
  FT_ASSIGN(const auto text, fields.text(custom ? "input" : "arguments"));
  if (custom) {
    arguments["input"] = text.value_or("");
  } else if (text && !text->empty()) {
    arguments = read_json<Json>(*text);
    if (!arguments.is_object()) {
      return wrong(fields.at("arguments"), "must be a JSON object as a string, such as {\"city\": \"Oslo\"}");
    }
  }
  assistant()["tool_calls"].push_back(
      Json{{"id", *id},
           {"type", "function"},
           {"function", {{"name", *name}, {"arguments", std::move(arguments)}}}});
  return {};
}

Status Conversation::add_output(const Fields& fields) {
  FT_ASSIGN(const auto id, fields.text("call_id"));
  if (!id) return wrong(fields.at("call_id"), "is missing; it ties the output to its call");
  const Json* output = fields.find("output");
  if (output == nullptr) return wrong(fields.at("output"), "is missing");
  Json content = *output;
  if (content.is_object()) content = dump(content);  // a program's output, not wrapped in parts
  FT_ASSIGN(Json read, read_content(content, fields.at("output")));
  close_thought();
  messages_.push_back(Json{{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(read)}});
  return {};
}

Status Conversation::add(const Json& item, const std::string& path) {
  if (!item.is_object()) return wrong(path, fmt::format("must be an object, found {}", kind_of(item)));
  const Fields fields(item, path);
  FT_ASSIGN(const auto type, fields.text("type"));
  if (!type || *type == "message") return add_message(item, path);
  if (*type == "reasoning") {
    std::string text = joined_texts(fields.find("content"));
    if (text.empty()) text = joined_texts(fields.find("summary"));
    close_thought();
    thought_ = std::move(text);
    return {};
  }
  if (*type == "function_call" || *type == "custom_tool_call") {
    return add_call(fields, *type == "custom_tool_call");
  }
  if (*type == "function_call_output" || *type == "custom_tool_call_output") return add_output(fields);
  if (*type == "item_reference") {
    return Error{Code::kUnsupported,
                 fmt::format("{}: items are not stored individually; send the item itself, or "
                             "previous_response_id",
                             fields.at("type")),
                 fields.at("type")};
  }
  const bool hosted = ends_with_any(*type, {"_call", "_call_output", "_list_tools", "_approval_request",
                                            "_approval_response", "compaction", "tools"});
  if (hosted) return {};  // belongs to a tool that another service runs
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

Result<Json> messages_of(const Json& items, std::size_t skipped) {
  Conversation conversation;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string path =
        i < skipped ? fmt::format("previous_response_id[{}]", i) : fmt::format("input[{}]", i - skipped);
    FT_TRY(conversation.add(items[i], path));
  }
  return conversation.finish();
}

}  // namespace ft::api
