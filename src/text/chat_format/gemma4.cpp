#include "text/chat_format/gemma4.h"

#include <fmt/format.h>

#include "text/chat_format/gemma4_parser.h"
#include "text/chat_format/gemma4_tags.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/pattern.h"
#include "text/schema_lark.h"
#include "text/tool_grammar.h"

namespace ft {

namespace {

constexpr std::string_view kGemma4Openings[] = {gemma4_tags::kCallOpen};
constexpr std::string_view kGemma4Marks[] = {gemma4_tags::kChannelOpen, gemma4_tags::kChannelClose,
                                             gemma4_tags::kCallOpen, gemma4_tags::kCallClose,
                                             gemma4_tags::kQuote};

constexpr ValueNotation kGemma4Notation = {.comma = ",",
                                           .colon = ":",
                                           .quoted_keys = false,
                                           .sorted_keys = true,  // as the template writes them
                                           .string_quote = "quote",
                                           .tag = gemma4_tags::kQuote,
                                           .any_text = "text",
                                           .anything = "any_value"};

Result<CallBody> gemma4_call_body(const ToolFunction& function, const std::string& prefix,
                                  std::string& lark) {
  // The parser skips colons before a name.
  FT_TRY(check_name(function.name, "function", function.name.starts_with(':') ? ":" : "{}<>\n"));
  SchemaLark rules(function.parameters, kGemma4Notation, prefix, lark);
  const std::string arguments = rules.value(function.parameters.root());
  rules.finish();
  if (rules.unwritable()) {
    return Error{Code::kInvalid,
                 fmt::format("the parameters of '{}' need a text that holds {}, which cannot be "
                             "written in a call of this model",
                             function.name, gemma4_tags::kQuote)};
  }
  return CallBody{
      fmt::format("{} {}", json_quoted(std::string(gemma4_tags::kCallWord) + function.name), arguments),
      rules.unenforced()};
}

Result<std::string> gemma4_text_body(const TextFunction& function, const std::string& prefix,
                                     std::string& lark) {
  const std::string head =
      json_quoted(fmt::format("{}{}{{{}:", gemma4_tags::kCallWord, function.name, kTextParameter));
  return fmt::format(
      "{} quote {} quote \"}}\"", head,
      lark_of(function.format, prefix + "_text", {{}, escaped_for_lark(gemma4_tags::kQuote)}, lark));
}

std::string gemma4_shared_rules(const GrammarTags& tags) {
  // Ordinary tokens may spell the quote too, and the parser of calls would end the text there.
  return fmt::format("quote: {}\nTEXT_OF_VALUE: /(?s:.*)/ & ~/(?s:.*){}(?s:.*)/\n",
                     tags.expression(gemma4_tags::kQuote), escaped_for_lark(gemma4_tags::kQuote)) +
         "text: quote TEXT_OF_VALUE quote\n"
         "any_value: text | /-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,2})?/ | \"true\" | \"false\" | "
         "\"null\" "
         "| any_object | any_array\n"
         "any_object: \"{\" (any_pair (\",\" any_pair)*)? \"}\"\n"
         "any_pair: /[A-Za-z0-9_.-]{1,64}/ \":\" any_value\n"
         "any_array: \"[\" (any_value (\",\" any_value)*)? \"]\"\n";
}

std::unique_ptr<ToolParser> gemma4_make_parser(ToolSchemas schemas) {
  return std::make_unique<Gemma4Parser>(std::move(schemas));
}

}  // namespace

constinit const ChatFormat kGemma4Format = {"gemma4",
                                            {gemma4_tags::kThoughtOpen, gemma4_tags::kChannelClose, {}},
                                            {gemma4_tags::kCallOpen,
                                             gemma4_tags::kCallClose,
                                             gemma4_tags::kCallWord,
                                             kGemma4Openings,
                                             gemma4_make_parser,
                                             gemma4_call_body,
                                             gemma4_shared_rules,
                                             {},
                                             gemma4_text_body},
                                            {},
                                            kGemma4Marks};

}  // namespace ft
