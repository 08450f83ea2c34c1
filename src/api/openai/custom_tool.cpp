#include "api/openai/custom_tool.h"

#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/fields.h"
#include "api/tool_name.h"
#include "base/json.h"

namespace ft::api {
namespace {

/// The grammar of a format: nested in `grammar` in chat, flat in Responses.
Status read_format(const Json& format, const std::string& path, CustomTool& custom) {
  const Fields fields(format, path);
  FT_ASSIGN(const auto type, fields.word("type", {"text", "grammar"}));
  if (!type) return wrong(fields.at("type"), "is missing; use text or grammar");
  if (*type == "text") return {};
  FT_ASSIGN(const Json* nested, fields.object("grammar"));
  const Fields inner(nested != nullptr ? *nested : format, nested != nullptr ? fields.at("grammar") : path);
  FT_ASSIGN(const auto syntax, inner.word("syntax", {"lark", "regex"}));
  if (!syntax) return wrong(inner.at("syntax"), "is missing; use lark or regex");
  FT_ASSIGN(const auto definition, inner.text("definition"));
  if (!definition) return wrong(inner.at("definition"), "is missing; it is the grammar's text");
  custom.format = {*syntax, *definition}, custom.format_field = inner.at("definition");
  return {};
}

/// The text of arguments that are not {"input": text}.
std::string other_form(const std::string& arguments) {
  const Json json = read_json<Json>(arguments);
  if (!json.is_object()) return arguments;
  const auto input = json.find("input");
  if (input == json.end()) return json.empty() ? "" : arguments;
  return input->is_string() ? input->get<std::string>() : dump(*input);
}

/// The bytes before the text in {"input": "text"}; nullopt if more must be read, npos if it has another form.
std::optional<std::size_t> head_size(std::string_view arguments) {
  constexpr std::array<std::string_view, 4> kParts{"{", "\"input\"", ":", "\""};
  std::size_t at = 0;
  for (const std::string_view part : kParts) {
    at = std::min(arguments.find_first_not_of(" \t\r\n", at), arguments.size());
    const std::string_view rest = arguments.substr(at, part.size());
    if (!part.starts_with(rest)) return std::string::npos;
    if (rest.size() < part.size()) return std::nullopt;
    at += part.size();
  }
  return at;
}

/// The bytes of a complete escape at the front of `text`; 0 if it is cut. A high surrogate includes its pair.
std::size_t escape_size(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] != 'u') return 2;
  if (text.size() < 6) return 0;
  const bool high = (text[2] == 'd' || text[2] == 'D') &&
                    std::string_view("89abAB").find(text[3]) != std::string_view::npos;
  if (!high) return 6;
  constexpr std::string_view kEscape = "\\u";
  const std::string_view next = text.substr(6, 2);
  if (!kEscape.starts_with(next)) return 6;
  return text.size() < 12 ? 0 : 12;
}

}  // namespace

Result<CustomTool> read_custom_tool(const Json& tool, const std::string& path) {
  FT_ASSIGN(const Json* nested, Fields(tool, path).object("custom"));
  const Fields fields(nested != nullptr ? *nested : tool, nested != nullptr ? path + ".custom" : path);
  FT_ASSIGN(const std::string name, read_tool_name(fields));
  FT_ASSIGN(const auto description, fields.text("description"));
  FT_ASSIGN(const Json* format, fields.object("format"));
  CustomTool custom;
  if (format != nullptr) FT_TRY(read_format(*format, fields.at("format"), custom));
  std::string input = "The input, as plain text";
  if (!custom.format.syntax.empty()) {
    input +=
        fmt::format(" in the form of this grammar ({}):\n{}", custom.format.syntax, custom.format.definition);
  }
  const Json text{{"type", "string"}, {"description", std::move(input)}};
  custom.function =
      Json{{"name", name},
           {"description", description.value_or("")},
           {"parameters",
            {{"type", "object"}, {"properties", {{"input", text}}}, {"required", Json::array({"input"})}}}};
  return custom;
}

std::string CustomInput::push(std::string_view arguments) {
  std::string text;
  if (state_ == State::kText) {
    held_ += arguments;
    take_text(text);
  } else if (state_ == State::kHead) {
    all_ += arguments;
    const std::optional<std::size_t> head = head_size(all_);
    if (!head || *head == std::string::npos) return text;
    held_ = all_.substr(*head);
    state_ = State::kText;
    take_text(text);
  }
  return text;
}

std::string CustomInput::finish() {
  // If the text has not begun, or an escape is cut, nothing was written.
  if (state_ != State::kHead || !head_size(all_)) return {};
  return other_form(std::exchange(all_, {}));
}

/// Moves the certain part of held_ to `text`.
void CustomInput::take_text(std::string& text) {
  std::size_t at = 0;
  while (at < held_.size() && held_[at] != '"') {
    std::size_t size = 1;
    if (held_[at] == '\\') {
      size = escape_size(std::string_view(held_).substr(at));
      if (size == 0) break;
      const Json one = read_json<Json>('"' + held_.substr(at, size) + '"');
      if (one.is_string()) text += one.get<std::string>();
    } else {
      text += held_[at];
    }
    at += size;
  }
  if (at < held_.size() && held_[at] == '"') state_ = State::kDone;
  held_.erase(0, at);
}

}  // namespace ft::api
