#include "text/chat_format/llama3_json.h"

#include <fmt/format.h>

#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json_parser.h"
#include "text/json_text.h"

namespace ft {

namespace {

Result<CallBody> llama3_json_call_body(const ToolFunction& function, const std::string& prefix,
                                       std::string& lark) {
  CallBody body = json_arguments(function, prefix, lark);
  const std::string head = fmt::format("{}, \"parameters\": ", json_quoted(function.name));
  body.expression = fmt::format("{} {}", json_quoted(head), body.expression);
  return body;
}

Result<std::string> llama3_json_text_body(const TextFunction& function, const std::string& prefix,
                                          std::string& lark) {
  FT_TRY(add_json_text_rule(function.name, function.format, prefix, lark));
  const std::string head = fmt::format("{}, \"parameters\": ", json_quoted(function.name));
  return fmt::format("{} {}_json", json_quoted(head), prefix);
}

std::unique_ptr<ToolParser> llama3_json_make_parser(ToolSchemas schemas) {
  return std::make_unique<Llama3JsonParser>(std::move(schemas));
}

constexpr std::string_view kLlama3JsonOpenings[] = {"{\"name\""};
constexpr std::string_view kLlama3JsonSpecialTokens[] = {Llama3JsonParser::kTag};

constexpr ToolCallSyntax llama3_json_calls() {
  ToolCallSyntax form;
  form.begin = "{\"name\": ", form.end = "}";
  form.openings = kLlama3JsonOpenings;
  form.parser = llama3_json_make_parser, form.body = llama3_json_call_body,
  form.text_body = llama3_json_text_body;
  form.whole_answer = true;
  return form;
}

}  // namespace

constinit const ChatFormat kLlama3JsonFormat = {
    "llama3_json", {}, llama3_json_calls(), {}, kLlama3JsonSpecialTokens};

bool is_llama3_json_template(std::string_view source) {
  const auto has = [&](std::string_view part) { return source.find(part) != std::string_view::npos; };
  return has("<|start_header_id|>") && has("\"parameters\": ") && has("{\"name\": ");
}

}  // namespace ft
