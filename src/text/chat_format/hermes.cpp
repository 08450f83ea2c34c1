#include "text/chat_format/hermes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/chat_format/qwen3_5.h"
#include "text/chat_format/qwen3_5_tags.h"
#include "text/json_text.h"
#include "text/schema_lark.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

Result<CallBody> hermes_call_body(const ToolFunction& function, const std::string& prefix,
                                  std::string& lark) {
  CallBody body = json_arguments(function, prefix, lark);
  const std::string head = fmt::format("\n{{\"name\": {}, \"arguments\": ", json_quoted(function.name));
  body.expression = fmt::format("{} {} \"}}\\n\"", json_quoted(head), body.expression);
  return body;
}

Result<std::string> hermes_text_body(const TextFunction& function, const std::string& prefix,
                                     std::string& lark) {
  FT_TRY(add_json_text_rule(function.name, function.format, prefix, lark));
  const std::string head = fmt::format("\n{{\"name\": {}, \"arguments\": ", json_quoted(function.name));
  return fmt::format("{} {}_json \"}}\\n\"", json_quoted(head), prefix);
}

constexpr ChatFormat of_qwen(ChatFormat format) {
  format.name = "hermes";
  format.calls.body = hermes_call_body;
  format.calls.inner = "{";
  format.calls.rules = nullptr;
  format.calls.text_body = hermes_text_body;
  return format;
}

}  // namespace

const ChatFormat kHermesFormat = of_qwen(kQwen35Format);

CallBody json_arguments(const ToolFunction& function, const std::string& prefix, std::string& lark) {
  SchemaLark rules(function.parameters, kJsonNotation, prefix, lark);
  std::string arguments = rules.value(function.parameters.root());
  rules.finish();
  return {std::move(arguments), rules.unenforced()};
}

Status add_json_text_rule(const std::string& tool, const TextFormat& format, const std::string& prefix,
                          std::string& lark) {
  if (format.syntax != "regex") {
    return Error{
        Code::kUnsupported,
        fmt::format("this model writes the input of '{}' as a JSON string, which cannot follow a Lark "
                    "grammar; use a regex, or leave the format out",
                    tool)};
  }
  const Json text{{"type", "string"}, {"pattern", "^(" + format.definition + ")$"}};
  const Json schema{{"type", "object"},
                    {"properties", {{kTextParameter, text}}},
                    {"required", Json::array({kTextParameter})},
                    {"additionalProperties", false}};
  lark += fmt::format("{}_json: {}\n", prefix, json_rule(schema, SchemaRule::kStrict));
  return {};
}

bool is_hermes_template(std::string_view source) {
  const size_t tag = source.find(qwen3_5_tags::kCallOpen);
  return tag != std::string_view::npos && source.find("<|tool_call>") == std::string_view::npos;
}

}  // namespace ft
