// Custom tools' formats in the grammar of calls, in every form of calls.
#include "text/text_format.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/chat_format/gemma4.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/qwen3_5.h"
#include "text/grammar_fixture.h"
#include "text/grammar_tags.h"

namespace ft::text_format_test {
namespace {

using namespace grammar_fixture;

constexpr const char* kCustom = R"([{"type": "function", "function": {"name": "patch", "parameters":
  {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}}}])";
// The grammar of Codex's apply_patch, shortened.
constexpr const char* kPatch = R"(start: begin hunk+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: "*** Add File: " /(.+)/ LF ("+" /(.*)/ LF)+
%import common.LF
)";

ToolCallRules rules_of(const ChatFormat& format, const TextFormat& text) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kCustom, rules.required = true, rules.format = &format;
  rules.text_formats["patch"] = text;
  return rules;
}

std::string xml(const std::string& text) {
  return "<tool_call>\n<function=patch>\n<parameter=input>\n" + text +
         "\n</parameter>\n</function>\n</tool_call>";
}

TEST(TextFormat, ALarkGrammarHoldsInACall) {
  const auto grammar = tools(rules_of(kQwen35Format, {"lark", kPatch}));
  EXPECT_TRUE(accepts(*grammar, xml("*** Begin Patch\n*** Add File: a.py\n+print({})\n+\n*** End Patch")));
  EXPECT_TRUE(accepts(*grammar, xml("*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch\n")));
  EXPECT_FALSE(accepts(*grammar, xml("*** Begin Patch\n*** End Patch")));
  EXPECT_FALSE(accepts(*grammar, xml("print")));
}

TEST(TextFormat, ARegexHoldsInEveryFormOfCalls) {
  const TextFormat date{"regex", R"(\d{4}/\d\d)"};
  const auto qwen = tools(rules_of(kQwen35Format, date));
  EXPECT_TRUE(accepts(*qwen, xml("2026/11")));
  EXPECT_FALSE(accepts(*qwen, xml("2026/1")));
  EXPECT_FALSE(accepts(*qwen, xml("in 2026/11")));
  const auto hermes = tools(rules_of(kHermesFormat, date));
  const auto json = [](const std::string& text) {
    return "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"" + text + "\"}}\n</tool_call>";
  };
  EXPECT_TRUE(accepts(*hermes, json("2026/11")));
  EXPECT_FALSE(accepts(*hermes, json("2026-11")));
}

TEST(TextFormat, ARegexThatMatchesEverythingEndsWithTheParameter) {
  const auto grammar = tools(rules_of(kQwen35Format, {"regex", "(?s:.*)"}));
  EXPECT_TRUE(accepts(*grammar, xml("a\n</b>\nc")));
  EXPECT_FALSE(accepts(*grammar, xml("a\n</parameter>\nc")));
  EXPECT_FALSE(accepts(*grammar, xml("a") + "b"));
}

TEST(TextFormat, GemmaDelimitsTheTextByItsToken) {
  std::string lark;
  const GrammarTags tags(tokenizer(), kGemma4Format.special_tokens);
  const auto body = kGemma4Format.calls.text_body({"patch", {"regex", "a/b\n"}, tags}, "f0", lark);
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(*body, R"("call:patch{input:" quote f0_text quote "}")");
  EXPECT_EQ(lark, "F0_TEXT: /(a\\/b\\n)/ & ~/(?s:.*)<\\|\"\\|>(?s:.*)/\nf0_text: F0_TEXT\n");
}

TEST(TextFormat, ALarkGrammarInsideJsonIsRefused) {
  std::string lark;
  const GrammarTags tags(tokenizer(), kHermesFormat.special_tokens);
  const auto body = kHermesFormat.calls.text_body({"patch", {"lark", kPatch}, tags}, "f0", lark);
  ASSERT_FALSE(body.ok());
  EXPECT_EQ(body.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace ft::text_format_test
