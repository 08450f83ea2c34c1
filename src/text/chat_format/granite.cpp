#include "text/chat_format/granite.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "text/chat_format/listed_calls_parser.h"

namespace ft {
namespace {

constexpr std::string_view kGraniteCall = "<|tool_call|>";
constexpr std::string_view kGraniteOpenings[] = {kGraniteCall, "<tool_call>"};
constexpr std::string_view kThinkOpen = "<think>", kResponseOpen = "<response>";
constexpr ReasoningTags kGraniteReasoning = {kThinkOpen, "</think>",    "\n<response>",
                                             {},         kResponseOpen, "</response>"};
constexpr std::string_view kGraniteSpecialTokens[] = {kGraniteCall, kGraniteReasoning.open,
                                                      kGraniteReasoning.close, kGraniteReasoning.content_open,
                                                      kGraniteReasoning.content_close};
constexpr CallMarks kGraniteMarks = {kGraniteOpenings, {}, {}};

std::unique_ptr<ToolParser> granite_make_parser(ToolSchemas schemas) {
  return std::make_unique<ListedCallsParser>(std::move(schemas), kGraniteMarks);
}

constexpr ToolCallSyntax granite_calls() {
  ToolCallSyntax form;
  form.begin = kGraniteCall;
  form.openings = kGraniteOpenings;
  form.parser = granite_make_parser;
  form.body = listed_call_body, form.text_body = listed_text_body;
  form.between = ", ";
  form.list_open = "[", form.list_close = "]";
  return form;
}

/// The calls of a message as the model wrote them, after its content.
void write_calls(nlohmann::ordered_json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array() || calls->empty()) return;
  std::string list;
  for (const auto& call : *calls) {
    const auto function = call.is_object() ? call.value("function", nlohmann::ordered_json()) : call;
    if (!function.is_object() || !function.contains("name") || !function.contains("arguments")) return;
    list += fmt::format(R"({}{{"name": {}, "arguments": {}}})", list.empty() ? "" : ", ",
                        write_json(function["name"]), write_json(function["arguments"]));
  }
  const auto content = message.find("content");
  const std::string before =
      content != message.end() && content->is_string() ? content->get<std::string>() : "";
  message["content"] = fmt::format("{}{}[{}]", before, kGraniteCall, list);
  message.erase("tool_calls");
}

}  // namespace

constinit const ChatFormat kGraniteFormat = {"granite", {}, granite_calls(), {}, kGraniteSpecialTokens};
constinit const ChatFormat kGraniteThinkingFormat = {
    "granite with reasoning", kGraniteReasoning, granite_calls(), {}, kGraniteSpecialTokens};

bool is_granite_template(std::string_view source) {
  return source.find(kGraniteCall) != std::string_view::npos;
}

bool is_granite_thinking_template(std::string_view source) {
  return is_granite_template(source) && source.find(kThinkOpen) != std::string_view::npos &&
         source.find(kResponseOpen) != std::string_view::npos;
}

void prepare_granite(nlohmann::ordered_json& context) {
  const auto think = context.find("enable_thinking");
  if (think != context.end() && !context.contains("thinking")) context["thinking"] = *think;
}

void prepare_granite_calls(nlohmann::ordered_json& context) {
  prepare_granite(context);
  for (auto& message : context["messages"]) {
    if (message.is_object()) write_calls(message);
  }
}

}  // namespace ft
