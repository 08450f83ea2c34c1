#include "text/chat_format/mistral.h"

#include <fmt/format.h>

#include "text/chat_format/hermes.h"
#include "text/chat_format/listed_calls_parser.h"
#include "text/chat_format/mistral_tags.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/schema_lark.h"
#include "text/tool_grammar.h"

namespace ft {
namespace {

using namespace mistral_tags;

constexpr std::string_view kOpenings[] = {kCalls};
constexpr std::string_view kSpecialTokens[] = {kCalls, kId, kArguments, kThinkOpen, kThinkClose};
constexpr CallMarks kMarks = {kOpenings, kArguments, kId};

Result<CallBody> call_body(const ToolFunction& function, const std::string& prefix, std::string& lark) {
  FT_TRY(check_name(function.name, "function", "[]{}\n"));
  SchemaLark rules(function.parameters, kJsonNotation, prefix, lark);
  const std::string arguments = rules.value(function.parameters.root());
  rules.finish();
  return CallBody{
      fmt::format("{} {} {}", json_quoted(function.name), function.tags.expression(kArguments), arguments),
      rules.unenforced()};
}

Result<std::string> text_body(const TextFunction& function, const std::string& prefix, std::string& lark) {
  FT_TRY(check_name(function.name, "function", "[]{}\n"));
  FT_TRY(add_json_text_rule(function.name, function.format, prefix, lark));
  return fmt::format("{} {} {}_json", json_quoted(function.name), function.tags.expression(kArguments),
                     prefix);
}

std::unique_ptr<ToolParser> make_parser(ToolSchemas schemas) {
  return std::make_unique<ListedCallsParser>(std::move(schemas), kMarks);
}

constexpr ToolCallSyntax calls(bool list) {
  ToolCallSyntax form;
  form.begin = kCalls;
  form.openings = kOpenings;
  form.parser = make_parser;
  form.body = list ? listed_call_body : call_body;
  form.text_body = list ? listed_text_body : text_body;
  form.between = list ? ", " : "";
  if (list) form.list_open = "[", form.list_close = "]";
  return form;
}

bool has(std::string_view source, std::string_view part) {
  return source.find(part) != std::string_view::npos;
}

}  // namespace

constinit const ChatFormat kMistralFormat = {"mistral", {}, calls(false), {}, kSpecialTokens};
constinit const ChatFormat kMistralThinkingFormat = {
    "mistral with reasoning", {kThinkOpen, kThinkClose, {}}, calls(false), {}, kSpecialTokens};
constinit const ChatFormat kMistralListFormat = {
    "mistral with a list of calls", {}, calls(true), {}, kSpecialTokens};

bool is_mistral_list_template(std::string_view source) { return has(source, kCalls); }

bool is_mistral_template(std::string_view source) { return has(source, kCalls) && has(source, kArguments); }

bool is_mistral_thinking_template(std::string_view source) {
  return is_mistral_template(source) && has(source, kThinkOpen);
}

}  // namespace ft
