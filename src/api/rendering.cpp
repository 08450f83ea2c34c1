#include "api/rendering.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/json.h"

namespace ft::api {
namespace {

/// Content as plain text; the input is a text or a list of text parts.
std::string plain(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string all;
  if (!content.is_array()) return all;
  for (const Json& part : content) {
    if (part.contains("text") && part["text"].is_string()) all += part["text"].get<std::string>();
  }
  return all;
}

bool is_system(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && (*role == "system" || *role == "developer");
}

/// Turns system messages after the leading ones into marked user turns; false if there are none.
bool turn_late_systems(Json& messages) {
  bool leading = true, any = false;
  for (Json& message : messages) {
    const bool system = is_system(message);
    leading = leading && system;
    if (!system || leading) continue;
    const std::string text =
        fmt::format("<system-reminder>\n{}\n</system-reminder>", plain(message["content"]));
    message = Json{{"role", "user"}, {"content", text}};
    any = true;
  }
  return any;
}

}  // namespace

Result<RenderedConversation> render_conversation(const ChatTemplate& chat_template,
                                                 const GenerateParams& call, const RenderOptions& options,
                                                 std::string_view header) {
  const std::string& tools = call.tool_choice == ToolChoice::kNone ? std::string() : call.tools;
  Json messages = read_json<Json>(call.messages);
  if (!messages.is_array()) return wrong("messages", "must be a list");
  RenderedConversation conversation;
  FT_ASSIGN(conversation.images, take_images(messages));
  std::string beginning;  // of the answer, with its header
  if (call.continues && !messages.empty()) {
    beginning = std::string(header) + plain(messages.back().value("content", Json("")));
    messages.erase(messages.size() - 1);
  }
  Result<std::string> text = chat_template.render(dump(messages), tools, options);
  if (!text.ok() && turn_late_systems(messages)) {
    if (Result<std::string> second = chat_template.render(dump(messages), tools, options); second.ok()) {
      text = std::move(second);
    }
  }
  if (!text.ok()) return text.error();
  conversation.text = *text + beginning;
  return conversation;
}

}  // namespace ft::api
