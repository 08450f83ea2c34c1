#include "text/chat_format/mistral.h"

#include <fmt/format.h>

#include "text/chat_format/hermes.h"
#include "text/chat_format/listed_calls_parser.h"
#include "text/chat_format/mistral_tags.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/tool_grammar.h"

namespace ft {
namespace {

constexpr std::string_view kMistralOpenings[] = {mistral_tags::kCalls};
constexpr std::string_view kMistralSpecialTokens[] = {mistral_tags::kCalls, mistral_tags::kId,
                                                      mistral_tags::kArguments, mistral_tags::kThinkOpen,
                                                      mistral_tags::kThinkClose};
constexpr CallMarks kMistralMarks = {kMistralOpenings, mistral_tags::kArguments, mistral_tags::kId};

Result<CallBody> mistral_call_body(const ToolFunction& function, const std::string& prefix,
                                   std::string& lark) {
  FT_TRY(check_name(function.name, "function", "[]{}\n"));
  CallBody body = json_arguments(function, prefix, lark);
  body.expression = fmt::format("{} {} {}", json_quoted(function.name),
                                function.tags.expression(mistral_tags::kArguments), body.expression);
  return body;
}

Result<std::string> mistral_text_body(const TextFunction& function, const std::string& prefix,
                                      std::string& lark) {
  FT_TRY(check_name(function.name, "function", "[]{}\n"));
  FT_TRY(add_json_text_rule(function.name, function.format, prefix, lark));
  return fmt::format("{} {} {}_json", json_quoted(function.name),
                     function.tags.expression(mistral_tags::kArguments), prefix);
}

std::unique_ptr<ToolParser> mistral_make_parser(ToolSchemas schemas) {
  return std::make_unique<ListedCallsParser>(std::move(schemas), kMistralMarks);
}

constexpr ToolCallSyntax mistral_calls(bool list) {
  ToolCallSyntax form;
  form.begin = mistral_tags::kCalls;
  form.openings = kMistralOpenings;
  form.parser = mistral_make_parser;
  form.body = list ? listed_call_body : mistral_call_body;
  form.text_body = list ? listed_text_body : mistral_text_body;
  form.between = list ? ", " : "";
  if (list) form.list_open = "[", form.list_close = "]";
  return form;
}

bool mistral_has(std::string_view source, std::string_view part) {
  return source.find(part) != std::string_view::npos;
}

}  // namespace

constinit const ChatFormat kMistralFormat = {"mistral", {}, mistral_calls(false), {}, kMistralSpecialTokens};
constinit const ChatFormat kMistralThinkingFormat = {
    "mistral with reasoning",
    {mistral_tags::kThinkOpen, mistral_tags::kThinkClose, {}},
    mistral_calls(false),
    {},
    kMistralSpecialTokens};
constinit const ChatFormat kMistralListFormat = {
    "mistral with a list of calls", {}, mistral_calls(true), {}, kMistralSpecialTokens};

bool is_mistral_list_template(std::string_view source) { return mistral_has(source, mistral_tags::kCalls); }

bool is_mistral_template(std::string_view source) {
  return mistral_has(source, mistral_tags::kCalls) && mistral_has(source, mistral_tags::kArguments);
}

bool is_mistral_thinking_template(std::string_view source) {
  return is_mistral_template(source) && mistral_has(source, mistral_tags::kThinkOpen);
}

}  // namespace ft
