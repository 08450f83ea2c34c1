#include "text/chat_format/qwen3_5.h"

#include <fmt/format.h>

#include "text/chat_format/qwen3_5_parser.h"
#include "text/chat_format/qwen3_5_tags.h"
#include "text/chat_format/tagged_arguments.h"
#include "text/json_text.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

constexpr std::string_view kQwen35Openings[] = {qwen3_5_tags::kCallOpen, qwen3_5_tags::kFunctionOpen};

constexpr ArgumentTags kQwen35ArgumentTags = {qwen3_5_tags::kParameterOpen,  ">\n", "",       "",
                                              qwen3_5_tags::kParameterClose, "\n",  "\"\\n\""};

Result<CallBody> qwen3_5_call_body(const ToolFunction& function, const std::string& prefix,
                                   std::string& lark) {
  FT_TRY(check_name(function.name, "function", "<>\n"));
  FT_ASSIGN(CallBody body, tagged_arguments(function, kQwen35ArgumentTags, prefix, lark));
  const std::string head = json_quoted(fmt::format("\n{}{}>\n", qwen3_5_tags::kFunctionOpen, function.name));
  body.expression = fmt::format("{} {} \"{}\\n\"", head, body.expression, qwen3_5_tags::kFunctionClose);
  return body;
}

Result<std::string> qwen3_5_text_body(const TextFunction& function, const std::string& prefix,
                                      std::string& lark) {
  const std::string head =
      json_quoted(fmt::format("\n{}{}>\n{}{}>\n", qwen3_5_tags::kFunctionOpen, function.name,
                              qwen3_5_tags::kParameterOpen, kTextParameter));
  const std::string text = lark_of(function.format, prefix + "_text",
                                   {fmt::format("\n{}", qwen3_5_tags::kParameterClose), {}}, lark);
  return fmt::format("{} {} \"\\n{}\\n\"", head, text, qwen3_5_tags::kFunctionClose);
}

std::string qwen3_5_shared_rules(const GrammarTags& tags) {
  return tagged_text_rule(kQwen35ArgumentTags, tags);
}

std::unique_ptr<ToolParser> qwen3_5_make_parser(ToolSchemas schemas) {
  return std::make_unique<Qwen35Parser>(std::move(schemas));
}

constexpr ReasoningTags kReasoning = {"<think>", "</think>", "\n\n"};
// Special in the tokenizers of some models, such as SmolLM3.
constexpr std::string_view kQwen35SpecialTokens[] = {kReasoning.open, kReasoning.close,
                                                     qwen3_5_tags::kCallOpen, qwen3_5_tags::kCallClose};
constexpr std::array<std::string_view, 3> kMiddle = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};

}  // namespace

constinit const ChatFormat kQwen35Format = {
    "qwen3_5",
    kReasoning,
    {qwen3_5_tags::kCallOpen, qwen3_5_tags::kCallClose, qwen3_5_tags::kFunctionOpen, kQwen35Openings,
     qwen3_5_make_parser, qwen3_5_call_body, qwen3_5_shared_rules, "\n", qwen3_5_text_body},
    kMiddle,
    kQwen35SpecialTokens};

constinit const ChatFormat kQwen35FormatWithoutGrammar = {
    "qwen3_5 without a grammar of calls",
    kReasoning,
    {qwen3_5_tags::kCallOpen, qwen3_5_tags::kCallClose, qwen3_5_tags::kFunctionOpen, kQwen35Openings,
     qwen3_5_make_parser, nullptr, nullptr},
    kMiddle,
    kQwen35SpecialTokens};

bool is_qwen3_5_template(std::string_view source) {
  const std::string open(qwen3_5_tags::kCallOpen);
  for (const char* newline : {"\n", "\\n"}) {
    if (source.find((open + newline).append(qwen3_5_tags::kFunctionOpen)) != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace ft
