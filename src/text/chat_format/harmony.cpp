#include "text/chat_format/harmony.h"

#include <fmt/format.h>

#include "text/chat_format/harmony_parser.h"
#include "text/chat_format/harmony_tags.h"
#include "text/chat_format/hermes.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

/// Between the name of a function and its arguments.
constexpr std::string_view kHarmonyArgumentsHead = " <|constrain|>json<|message|>";
constexpr std::string_view kHarmonyMarks[] = {
    harmony_tags::kStart,     harmony_tags::kEnd,    harmony_tags::kMessage, harmony_tags::kChannel,
    harmony_tags::kConstrain, harmony_tags::kReturn, harmony_tags::kCall};

/// A message to a function; the name follows.
constexpr std::string_view kHarmonyOpenings[] = {
    "<|channel|>commentary to=", "<|channel|>analysis to=", "<|start|>assistant to="};

Result<CallBody> harmony_call_body(const ToolFunction& function, const std::string& prefix,
                                   std::string& lark) {
  FT_TRY(check_name(function.name, "function", "<> \t\n"));
  CallBody body = json_arguments(function, prefix, lark);
  body.expression = fmt::format("{} {} {}", json_quoted(function.name),
                                function.tags.expression(kHarmonyArgumentsHead), body.expression);
  return body;
}

Result<std::string> harmony_text_body(const TextFunction& function, const std::string& prefix,
                                      std::string& lark) {
  FT_TRY(add_json_text_rule(function.name, function.format, prefix, lark));
  return fmt::format("{} {} {}_json", json_quoted(function.name),
                     function.tags.expression(kHarmonyArgumentsHead), prefix);
}

std::unique_ptr<ToolParser> harmony_make_parser(ToolSchemas schemas) {
  return std::make_unique<HarmonyParser>(std::move(schemas));
}

constexpr ReasoningTags harmony_reasoning() {
  ReasoningTags tags;
  tags.open = "<|channel|>analysis<|message|>", tags.close = harmony_tags::kEnd;
  tags.gap = "<|start|>assistant<|channel|>final<|message|>";
  tags.header = "<|channel|>final<|message|>";
  return tags;
}

constexpr ToolCallSyntax harmony_calls() {
  ToolCallSyntax form;
  form.begin = "<|start|>assistant<|channel|>commentary to=functions.";
  form.openings = kHarmonyOpenings;
  form.parser = harmony_make_parser, form.body = harmony_call_body, form.text_body = harmony_text_body;
  form.whole_answer = true;
  return form;
}

}  // namespace

constinit const ChatFormat kHarmonyFormat = {"harmony", harmony_reasoning(), harmony_calls(),
                                             {},        kHarmonyMarks,       true};

bool is_harmony_template(std::string_view source) {
  const auto has = [&](std::string_view part) { return source.find(part) != std::string_view::npos; };
  return has("<|start|>") && has("<|message|>") && has("<|channel|>");
}

}  // namespace ft
