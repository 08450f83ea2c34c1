#include "text/chat_format/mistral_messages.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kIdLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kIdBytes = 9;

bool is_id(const std::string& id) {
  return id.size() == kIdBytes &&
         std::ranges::all_of(id, [](char c) { return kIdLetters.find(c) != std::string_view::npos; });
}

/// FNV-1a in kIdLetters: the same id for the same text.
void shorten_id(Json& holder, const char* key) {
  const auto found = holder.find(key);
  if (found == holder.end() || !found->is_string() || is_id(found->get_ref<const std::string&>())) return;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : found->get_ref<const std::string&>()) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  std::string id;
  for (std::size_t i = 0; i < kIdBytes; ++i, hash /= kIdLetters.size())
    id += kIdLetters[hash % kIdLetters.size()];
  *found = std::move(id);
}

/// A message of text alone, whose role is `role`.
bool is_text_of(const Json& message, const Json& role) {
  return message.is_object() && message.value("role", Json()) == role && message.contains("content") &&
         message["content"].is_string() && !message.contains("tool_calls");
}

Json joined(Json&& messages) {
  Json turns = Json::array();
  for (Json& message : messages) {
    const Json role = message.is_object() ? message.value("role", Json()) : Json();
    const bool joins = (role == "user" || role == "assistant") && !turns.empty() &&
                       is_text_of(message, role) && is_text_of(turns.back(), role);
    if (joins) {
      turns.back()["content"].get_ref<std::string&>() +=
          "\n\n" + message["content"].get_ref<const std::string&>();
    } else {
      turns.push_back(std::move(message));
    }
  }
  return turns;
}

}  // namespace

void prepare_mistral(Json& context) {
  for (Json& message : context["messages"]) {
    if (!message.is_object()) continue;
    shorten_id(message, "tool_call_id");
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) continue;
    if (!calls->is_array() || calls->empty()) {
      message.erase("tool_calls");
      continue;
    }
    for (Json& call : *calls) {
      if (call.is_object()) shorten_id(call, "id");
    }
  }
  context["messages"] = joined(std::move(context["messages"]));
}

}  // namespace ft
