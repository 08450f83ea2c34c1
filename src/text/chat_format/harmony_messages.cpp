#include "text/chat_format/harmony_messages.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

std::string message_text(const Json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Parts of text become one text; other content stays as it is, and the template refuses it.
void join_parts(Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) {
    message["content"] = "";
    return;
  }
  if (!content->is_array()) return;
  std::string all;
  for (const Json& part : *content) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return;
    all += part["text"].get_ref<const std::string&>();
  }
  *content = std::move(all);
}

void name_reasoning(Json& message) {
  std::string thinking = message_text(message, "thinking");
  for (const char* key : {"reasoning_content", "reasoning"}) {
    if (thinking.empty()) thinking = message_text(message, key);
  }
  const bool calls = message.contains("tool_calls");
  if (std::string content = message_text(message, "content");
      calls && !thinking.empty() && !content.empty()) {
    thinking += "\n\n" + content;
    message["content"] = "";
  }
  if (!thinking.empty()) message["thinking"] = std::move(thinking);
}

/// The message with one of its calls. The first one has the reasoning.
Json with_call(const Json& message, std::size_t index) {
  Json one = message;
  one["tool_calls"] = Json::array({message["tool_calls"][index]});
  if (index > 0) one["content"] = "", one.erase("thinking");
  return one;
}

/// Takes the result of a call out of `results`: by its id, otherwise the first result without an id.
void move_result(const std::string& id, std::vector<Json>& results, Json& to) {
  for (const bool by_id : {true, false}) {
    for (auto at = results.begin(); at != results.end(); ++at) {
      const std::string own = message_text(*at, "tool_call_id");
      if (by_id ? own.empty() || own != id : !own.empty()) continue;
      to.push_back(std::move(*at));
      results.erase(at);
      return;
    }
  }
}

bool is_call_of_assistant(const Json& message) {
  return message.is_object() && message.value("role", Json()) == "assistant" &&
         message.contains("tool_calls");
}

Json in_turns(const Json& messages) {
  Json turns = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!is_call_of_assistant(message) || message["tool_calls"].size() < 2) {
      turns.push_back(message);
      continue;
    }
    std::vector<Json> results;
    while (i + 1 < messages.size() && messages[i + 1].is_object() &&
           messages[i + 1].value("role", Json()) == "tool")
      results.push_back(messages[++i]);
    for (std::size_t call = 0; call < message["tool_calls"].size(); ++call) {
      turns.push_back(with_call(message, call));
      const Json& made = message["tool_calls"][call];
      move_result(made.is_object() ? message_text(made, "id") : "", results, turns);
    }
    for (Json& rest : results) turns.push_back(std::move(rest));
  }
  return turns;
}

}  // namespace

void prepare_harmony(Json& context) {
  for (Json& tool : context["tools"]) {  // the template joins texts with the description
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    if (const Json known = tool["function"].value("description", Json()); !known.is_string())
      tool["function"]["description"] = "";
  }
  for (Json& message : context["messages"]) {
    if (!message.is_object()) continue;
    join_parts(message);
    if (message.value("role", Json()) != "assistant") continue;
    // The template tests whether the key exists.
    if (const auto calls = message.find("tool_calls");
        calls != message.end() && (!calls->is_array() || calls->empty()))
      message.erase("tool_calls");
    name_reasoning(message);
  }
  context["messages"] = in_turns(context["messages"]);
  if (context.value("enable_thinking", Json()) == false && !context.contains("reasoning_effort"))
    context["reasoning_effort"] = "low";
}

}  // namespace ft
