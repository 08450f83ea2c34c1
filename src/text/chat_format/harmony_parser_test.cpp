#include "text/chat_format/harmony_parser.h"

#include <gtest/gtest.h>
#include <random>

namespace ft::harmony_parser_test {
namespace {

constexpr const char* kTools = R"([{"function":{"name":"get_weather"}},{"function":{"name":"g"}}])";

/// Reasoning as "(text)", calls as "[name arguments]", content unchanged; pushed in pieces of up to `most`
/// bytes.
std::string parsed(const std::string& text, bool cut = false, size_t most = 1 << 20,
                   const char* tools = kTools, bool in_reasoning = false) {
  const auto schemas = ToolSchemas::parse(tools);
  HarmonyParser parser(*schemas);
  if (in_reasoning) parser.begin_in_reasoning();
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most)
    parser.push(std::string_view(text).substr(from, most), events);
  parser.finish(cut, events);
  std::string shown;
  std::optional<AnswerEvent::Kind> last;
  for (const AnswerEvent& event : events) {
    using Kind = AnswerEvent::Kind;
    if (last == Kind::kReasoning && event.kind != last) shown += ")";
    if (event.kind == Kind::kReasoning && event.kind != last) shown += "(";
    shown += event.kind == Kind::kToolBegin ? "[" + event.text + " "
             : event.kind == Kind::kToolEnd ? "]"
                                            : event.text;
    last = event.kind;
  }
  return shown + (last == AnswerEvent::Kind::kReasoning ? ")" : "");
}

TEST(HarmonyParser, ChannelsAreReasoningAndContent) {
  EXPECT_EQ(parsed("<|channel|>analysis<|message|>Why?<|end|><|start|>assistant<|channel|>final<|message|>"
                   "Because.<|return|>"),
            "(Why?)Because.");
  EXPECT_EQ(parsed("<|channel|>final<|message|>Hi"), "Hi");
  EXPECT_EQ(parsed("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b"), "(a)b")
      << "without the beginning of the second message";
  EXPECT_EQ(parsed("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b"), "(a)b")
      << "without the end of the first one";
  EXPECT_EQ(parsed("<|channel|>analysis<|message|>a<|end|> noise <|start|>assistant<|channel|>final"
                   "<|message|>b<|end|>more"),
            "(a)b")
      << "between messages there is nothing";
  EXPECT_EQ(parsed("<|message|>no channel"), "no channel");
  EXPECT_EQ(parsed("a<|end|>b", false, 100, kTools, true), "(a)") << "the prompt began the reasoning";
}

TEST(HarmonyParser, MessagesOfOneKindAreApart) {
  EXPECT_EQ(parsed("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b"
                   "<|end|><|start|>assistant<|channel|>commentary<|message|>First.<|end|>"
                   "<|start|>assistant<|channel|>final<|message|>Then."),
            "(a\n\nb)First.\n\nThen.");
}

TEST(HarmonyParser, ARecipientMakesACall) {
  const std::string seen = R"([get_weather {"city": "Os<l>o"}])", arguments = R"({"city": "Os<l>o"})";
  for (const char* header :
       {"<|channel|>commentary to=functions.get_weather <|constrain|>json",
        " to=functions.get_weather<|channel|>commentary json", "<|channel|>analysis to=functions.get_weather",
        "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json",
        "<|channel|>commentary to=get_weather json"}) {
    EXPECT_EQ(parsed(std::string(header) + "<|message|>" + arguments + "<|call|>"), seen) << header;
    EXPECT_EQ(parsed(std::string(header) + "<|message|>" + arguments), seen) << "the end token is not shown";
  }
  EXPECT_EQ(parsed("<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary "
                   "to=functions.g <|constrain|>json<|message|>{}<|call|>"),
            "(Look.)[g {}]");
  EXPECT_EQ(parsed("<|channel|>commentary to=functions.g<|message|> <|call|>"), "[g {}]");
  EXPECT_EQ(parsed("<|channel|>commentary to=functions.g<|message|>{\"a\":1}<|end|><|start|>assistant "
                   "to=functions.g<|channel|>commentary<|message|>{}<|call|>"),
            "[g {\"a\":1}][g {}]");
}

TEST(HarmonyParser, WhatIsNoCallIsShown) {
  EXPECT_EQ(parsed("<|channel|>commentary to=functions.g<|message|>not JSON<|call|>"), "not JSON");
  EXPECT_EQ(parsed("<|channel|>commentary to=functions.g<|message|>[1]<|call|>"), "[1]");
  EXPECT_EQ(parsed("<|channel|>commentary to=functions.g<|message|>{\"a\": 1"), "{\"a\": 1");
  EXPECT_EQ(parsed("<|channel|>commentary to=browser.search<|message|>{}<|call|>"), "({})");
  EXPECT_EQ(parsed("<|channel|>commentary to=functions.g<|message|>{}<|call|>", false, 100, "[]"), "({})")
      << "the request has no tools";
}

TEST(HarmonyParser, ATextWithoutAHeaderIsContent) {
  for (const char* text : {"plain text", "<|chann", "<b>bold</b>", "<", "to", " to the end", "a <|message|"})
    EXPECT_EQ(parsed(text), text);
}

TEST(HarmonyParser, ACutCallKeepsWhatWasWritten) {
  EXPECT_EQ(parsed(R"(<|channel|>commentary to=functions.g<|message|>{"a": "b)", true), R"([g {"a": "b)");
  EXPECT_EQ(parsed("<|channel|>final<|message|>par", true), "par");
  EXPECT_EQ(parsed("<|channel|>fin", true), "");
}

/// Answers of random pieces, among them broken ones.
TEST(HarmonyParser, EverySplitGivesTheSame) {
  const std::vector<std::string> pieces = {"<|channel|>",
                                           "analysis",
                                           "final",
                                           "commentary",
                                           " to=functions.g",
                                           "to=get_weather",
                                           "<|constrain|>",
                                           "json",
                                           "<|message|>",
                                           "<|message|>",
                                           "<|end|>",
                                           "<|start|>",
                                           "assistant",
                                           "<|call|>",
                                           "<|return|>",
                                           "{\"a\": \"<|\"}",
                                           "{}",
                                           "text é日",
                                           "<",
                                           "|",
                                           " ",
                                           "\n",
                                           std::string(700, 'x')};
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t count = 1 + random() % 14; count > 0; --count) text += pieces[random() % pieces.size()];
    for (const bool cut : {false, true}) {
      const std::string whole = parsed(text, cut);
      for (const size_t most : {1U, 2U, 3U, 7U, 64U}) ASSERT_EQ(parsed(text, cut, most), whole) << text;
    }
  }
}

}  // namespace
}  // namespace ft::harmony_parser_test
