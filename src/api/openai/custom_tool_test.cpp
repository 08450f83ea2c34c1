#include "api/openai/custom_tool.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::api::custom_tool_test {
namespace {

/// The text of `arguments` that arrive `size` bytes at a time.
std::string input_of(const std::string& arguments, std::size_t size) {
  CustomInput input;
  std::string text;
  for (std::size_t at = 0; at < arguments.size(); at += size) text += input.push(arguments.substr(at, size));
  return text + input.finish();
}

TEST(CustomInput, TheTextIsTheSameForEverySplit) {
  const std::string text = "*** Begin\n\"\\ \xF0\x9F\xA6\x89 \t{}";
  const std::string plain = Json{{"input", text}}.dump();
  const std::string escaped = R"({ "input" : "*** Begin\n\"\\ \ud83e\udd89 \t{}", "more": 1})";
  for (std::size_t size = 1; size < 12; ++size) {
    EXPECT_EQ(input_of(plain, size), text) << size;
    EXPECT_EQ(input_of(escaped, size), text) << size;
  }
}

TEST(CustomInput, ItArrivesBeforeItEnds) {
  CustomInput input;
  EXPECT_EQ(input.push(R"({"input": "one tw)"), "one tw");
  EXPECT_EQ(input.push(R"(o\)"), "o");
  EXPECT_EQ(input.push(R"(n"})"), "\n");
  EXPECT_EQ(input.finish(), "");
}

TEST(CustomInput, ACutTextHasNoMarkup) {
  EXPECT_EQ(input_of(R"({"input": "abc)", 3), "abc");
  EXPECT_EQ(input_of(R"({"input": "abc\u00)", 3), "abc");
  EXPECT_EQ(input_of(R"({"inp)", 3), "");
  EXPECT_EQ(input_of("", 3), "");
}

TEST(CustomInput, OtherArgumentsAreGivenUnchanged) {
  EXPECT_EQ(input_of("{}", 1), "");
  EXPECT_EQ(input_of(R"({"patch": "x"})", 2), R"({"patch": "x"})");
  EXPECT_EQ(input_of(R"({"a": 1, "input": "x"})", 2), "x");
  EXPECT_EQ(input_of(R"({"input": {"a":1}})", 2), R"({"a":1})");
}

std::string field_of(const std::string& tool) {
  const Result<CustomTool> custom = read_custom_tool(Json::parse(tool), "tools[0]");
  return custom.ok() ? "(none)" : custom.error().field;
}

TEST(CustomTool, BothFormsOfAGrammarAreRead) {
  for (const char* tool : {R"({"type": "custom", "custom": {"name": "f", "format": {"type": "grammar",
            "grammar": {"syntax": "regex", "definition": "a+"}}}})",
                           R"({"type": "custom", "name": "f",
            "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}})"}) {
    const Result<CustomTool> custom = read_custom_tool(Json::parse(tool), "tools[0]");
    ASSERT_TRUE(custom.ok()) << custom.error().message;
    EXPECT_EQ(custom->function["name"], "f");
    EXPECT_EQ(custom->format.syntax, "regex");
    EXPECT_EQ(custom->format.definition, "a+");
  }
}

TEST(CustomTool, WhatIsWrongIsNamed) {
  EXPECT_EQ(field_of(R"({"type": "custom", "name": "f", "format": {"type": "text"}})"), "(none)");
  EXPECT_EQ(field_of(R"({"type": "custom"})"), "tools[0].name");
  EXPECT_EQ(field_of(R"({"type": "custom", "custom": {}})"), "tools[0].custom.name");
  EXPECT_EQ(field_of(R"({"type": "custom", "name": "f", "format": {"type": "poem"}})"),
            "tools[0].format.type");
  EXPECT_EQ(field_of(R"({"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "ebnf"}})"),
            "tools[0].format.syntax");
  EXPECT_EQ(field_of(R"({"type": "custom", "custom": {"name": "f",
                         "format": {"type": "grammar", "grammar": {"syntax": "lark"}}}})"),
            "tools[0].custom.format.grammar.definition");
}

}  // namespace
}  // namespace ft::api::custom_tool_test
