#include "text/chat_format/glm4_moe.h"

#include <fmt/format.h>

#include "text/chat_format/glm4_moe_parser.h"
#include "text/chat_format/glm4_moe_tags.h"
#include "text/chat_format/tagged_arguments.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/tool_grammar.h"

namespace ft {
namespace {

using namespace glm4_moe_tags;

// GLM-4.5 and 4.6 write a line's end between the tags, 4.7 does not.
constexpr std::string_view kLine = "(\"\\n\")?";
constexpr ArgumentTags kArgumentTags = {kKeyOpen, kKeyClose, kLine, kValueOpen, kValueClose, "", kLine};
constexpr std::string_view kOpenings[] = {kCallOpen};

Result<CallBody> call_body(const ToolFunction& function, const std::string& prefix, std::string& lark) {
  FT_TRY(check_name(function.name, "function", "<>\n"));
  FT_ASSIGN(CallBody body, tagged_arguments(function, kArgumentTags, prefix, lark));
  body.expression = fmt::format("{} {} {}", json_quoted(function.name), kLine, body.expression);
  return body;
}

Result<std::string> text_body(const TextFunction& function, const std::string& prefix, std::string& lark) {
  const std::optional<std::string> close = function.tags.token(kValueClose);
  const std::string text = lark_of(function.format, prefix + "_text", close ? "" : kValueClose, lark);
  return fmt::format("{} {} {} {} {} {} {} {}", json_quoted(function.name), kLine,
                     function.tags.expression(fmt::format("{}{}{}", kKeyOpen, kTextParameter, kKeyClose)),
                     kLine, function.tags.expression(kValueOpen), text, close.value_or(""), kLine);
}

std::string shared_rules(const GrammarTags& tags) { return tagged_text_rule(kArgumentTags, tags); }

std::unique_ptr<ToolParser> make_parser(ToolSchemas schemas) {
  return std::make_unique<Glm4MoeParser>(std::move(schemas));
}

constexpr std::string_view kSpecialTokens[] = {"<think>", "</think>", kCallOpen,  kCallClose,
                                               kKeyOpen,  kKeyClose,  kValueOpen, kValueClose};

}  // namespace

constinit const ChatFormat kGlm4MoeFormat = {
    "glm4_moe",
    {"<think>", "</think>", "\n"},
    {kCallOpen, kCallClose, {}, kOpenings, make_parser, call_body, shared_rules, "\n", text_body},
    {},
    kSpecialTokens};

bool is_glm4_moe_template(std::string_view source) {
  const auto has = [&](std::string_view part) { return source.find(part) != std::string_view::npos; };
  return has(kCallOpen) && has(kKeyOpen);
}

}  // namespace ft
