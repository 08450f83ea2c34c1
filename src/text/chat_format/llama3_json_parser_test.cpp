#include "text/chat_format/llama3_json_parser.h"

#include <gtest/gtest.h>

namespace ft::llama3_json_parser_test {
namespace {

/// Content unchanged, calls as "[name arguments]"; pushed in pieces of up to `most` bytes.
std::string parsed(const std::string& text, bool cut = false, size_t most = 1 << 20) {
  static const auto schemas =
      ToolSchemas::parse(R"([{"function":{"name":"get_weather"}},{"function":{"name":"g"}}])");
  Llama3JsonParser parser(*schemas);
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most)
    parser.push(std::string_view(text).substr(from, most), events);
  parser.finish(cut, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    const bool begins = event.kind == AnswerEvent::Kind::kToolBegin;
    shown += begins ? "[" + event.text + " " : event.kind == AnswerEvent::Kind::kToolEnd ? "]" : event.text;
  }
  return shown;
}

TEST(Llama3JsonParser, AnAnswerThatIsACallBecomesOne) {
  const std::string call = R"({"name": "get_weather", "parameters": {"city": "O{s}\"lo"}})";
  const std::string seen = R"([get_weather {"city": "O{s}\"lo"}])";
  EXPECT_EQ(parsed(call), seen);
  EXPECT_EQ(parsed("<|python_tag|>" + call), seen);
  EXPECT_EQ(parsed("\n " + call + "\n"), seen);
  EXPECT_EQ(parsed(call + "; " + call), seen + seen);
  EXPECT_EQ(parsed(R"({"type": "function", "name": "g", "parameters": {}})"), "[g {}]");
  EXPECT_EQ(parsed(R"({"name": "g", "arguments": {"a":1}})"), R"([g {"a":1}])");
  EXPECT_EQ(parsed(R"({"name": "g", "parameters": "{\"a\": 1}"})"), R"([g {"a": 1}])");
  EXPECT_EQ(parsed(R"({"name": "g"})"), "[g {}]");
}

TEST(Llama3JsonParser, WhatBeginsLikeACallAndIsNoneIsContent) {
  for (const char* text :
       {"plain text", R"({"name": "unknown", "parameters": {}})", R"({"answer": 1})", "{", R"({"name")",
        R"(Use {"name": "g", "parameters": {}} here)", R"({"name": 5})", R"({"name": "g", "parameters": 5})"})
    EXPECT_EQ(parsed(text), text);
  EXPECT_EQ(parsed("<|python_tag|>brave_search.call(query=\"x\")"), "brave_search.call(query=\"x\")");
}

TEST(Llama3JsonParser, ACutCallKeepsWhatWasWritten) {
  EXPECT_EQ(parsed(R"({"name": "g", "parameters": {"a": "b)", true), R"([g {"a": "b)");
  EXPECT_EQ(parsed(R"({"name": "g", "parameters": {"a": 1})"), R"([g {"a": 1}])")
      << "its last brace is missing";
  EXPECT_EQ(parsed(R"({"name": "g", "parameters": {"a": "b)"), R"({"name": "g", "parameters": {"a": "b)");
}

TEST(Llama3JsonParser, EverySplitGivesTheSame) {
  for (
      const std::string text :
      {R"(<|python_tag|>{"name": "g", "parameters": {"a": [1, "}"]}} ; {"name": "g", "parameters": {}} end )",
       R"( {"type" : "function", "name" : "g", "parameters": {}}  )", "<|python_tag|> print(1)\n\n"}) {
    for (size_t most = 1; most < text.size(); ++most) {
      EXPECT_EQ(parsed(text, false, most), parsed(text)) << most;
      EXPECT_EQ(parsed(text, true, most), parsed(text, true)) << most;
    }
  }
}

}  // namespace
}  // namespace ft::llama3_json_parser_test
