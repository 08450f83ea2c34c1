#include "text/chat_format/glm4_moe.h"

#include <fmt/format.h>

#include "text/chat_format/glm4_moe_parser.h"
#include "text/chat_format/glm4_moe_tags.h"
#include "text/chat_format/tagged_arguments.h"
#include "text/grammar_tags.h"
#include "text/json_text.h"
#include "text/pattern.h"
#include "text/tool_grammar.h"

namespace ft {
namespace {

// GLM-4.5 and 4.6 write a line's end between the tags, 4.7 does not.
constexpr std::string_view kLine = "(\"\\n\")?";
constexpr ArgumentTags kGlm4MoeArgumentTags = {glm4_moe_tags::kKeyOpen,
                                               glm4_moe_tags::kKeyClose,
                                               kLine,
                                               glm4_moe_tags::kValueOpen,
                                               glm4_moe_tags::kValueClose,
                                               "",
                                               kLine};
constexpr std::string_view kGlm4MoeOpenings[] = {glm4_moe_tags::kCallOpen};

Result<CallBody> glm4_moe_call_body(const ToolFunction& function, const std::string& prefix,
                                    std::string& lark) {
  FT_TRY(check_name(function.name, "function", "<>\n"));
  FT_ASSIGN(CallBody body, tagged_arguments(function, kGlm4MoeArgumentTags, prefix, lark));
  body.expression = fmt::format("{} {} {}", json_quoted(function.name), kLine, body.expression);
  return body;
}

Result<std::string> glm4_moe_text_body(const TextFunction& function, const std::string& prefix,
                                       std::string& lark) {
  const std::optional<std::string> close = function.tags.token(glm4_moe_tags::kValueClose);
  const std::string end(glm4_moe_tags::kValueClose);
  const std::string text = lark_of(function.format, prefix + "_text",
                                   {close ? "" : end, close ? escaped_for_lark(end) : ""}, lark);
  return fmt::format("{} {} {} {} {} {} {} {}", json_quoted(function.name), kLine,
                     function.tags.expression(fmt::format("{}{}{}", glm4_moe_tags::kKeyOpen, kTextParameter,
                                                          glm4_moe_tags::kKeyClose)),
                     kLine, function.tags.expression(glm4_moe_tags::kValueOpen), text, close.value_or(""),
                     kLine);
}

std::string glm4_moe_shared_rules(const GrammarTags& tags) {
  return tagged_text_rule(kGlm4MoeArgumentTags, tags);
}

std::unique_ptr<ToolParser> glm4_moe_make_parser(ToolSchemas schemas) {
  return std::make_unique<Glm4MoeParser>(std::move(schemas));
}

constexpr std::string_view kGlm4MoeSpecialTokens[] = {"<think>",
                                                      "</think>",
                                                      glm4_moe_tags::kCallOpen,
                                                      glm4_moe_tags::kCallClose,
                                                      glm4_moe_tags::kKeyOpen,
                                                      glm4_moe_tags::kKeyClose,
                                                      glm4_moe_tags::kValueOpen,
                                                      glm4_moe_tags::kValueClose};

}  // namespace

constinit const ChatFormat kGlm4MoeFormat = {"glm4_moe",
                                             {"<think>", "</think>", "\n"},
                                             {glm4_moe_tags::kCallOpen,
                                              glm4_moe_tags::kCallClose,
                                              {},
                                              kGlm4MoeOpenings,
                                              glm4_moe_make_parser,
                                              glm4_moe_call_body,
                                              glm4_moe_shared_rules,
                                              "\n",
                                              glm4_moe_text_body},
                                             {},
                                             kGlm4MoeSpecialTokens};

bool is_glm4_moe_template(std::string_view source) {
  const auto has = [&](std::string_view part) { return source.find(part) != std::string_view::npos; };
  return has(glm4_moe_tags::kCallOpen) && has(glm4_moe_tags::kKeyOpen);
}

}  // namespace ft
