#include "text/thinking.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "text/chat_format/qwen3_5.h"

namespace ft::thinking_test {
namespace {

/// "reasoning|content", pushed in pieces of up to `most` bytes.
std::string split(const std::string& text, bool starts_in_reasoning, size_t most) {
  ThinkingSplitter splitter(kQwen35Format, {starts_in_reasoning, true});
  ThinkingSplitter::Piece all;
  auto take = [&all](const ThinkingSplitter::Piece& piece) {
    all.reasoning += piece.reasoning;
    all.content += piece.content;
  };
  for (size_t from = 0; from < text.size(); from += most) {
    take(splitter.push(std::string_view(text).substr(from, most)));
  }
  take(splitter.finish());
  return all.reasoning + "|" + all.content;
}

TEST(Thinking, KnowsAPromptThatOpensIt) {
  EXPECT_TRUE(prompt_opens_thinking("<|im_start|>assistant\n<think>\n", kQwen35Format.reasoning));
  EXPECT_TRUE(prompt_opens_thinking("<think>", kQwen35Format.reasoning));
  EXPECT_FALSE(prompt_opens_thinking("<think>\n\n</think>\n\n", kQwen35Format.reasoning));
  EXPECT_FALSE(prompt_opens_thinking(" \n", kQwen35Format.reasoning));
}

TEST(Thinking, SplitsAtTheTagsAndDropsTheirNewlines) {
  EXPECT_EQ(split("\nwhy\n\nso\n</think>\n\nyes\n", true, 99), "why\n\nso|yes\n");
  EXPECT_EQ(split("\n<think>\nwhy\n</think>\n\nyes", false, 99), "why|yes");
  EXPECT_EQ(split("</think>yes", true, 99), "|yes");
}

TEST(Thinking, LeavesTagsInTheContentAlone) {
  EXPECT_EQ(split("a <think>b</think>", false, 99), "|a <think>b</think>");
  EXPECT_EQ(split("x</think>y</think>z", true, 99), "x|y</think>z");
}

TEST(Thinking, TakesAnUnclosedTextAsReasoning) {
  EXPECT_EQ(split("only thoughts <", true, 99), "only thoughts <|");
  EXPECT_EQ(split("thoughts\n\n", true, 99), "thoughts|");
  EXPECT_EQ(split("<thi", false, 99), "|<thi");
}

TEST(Thinking, EndsUnclosedReasoningAtAToolCall) {
  EXPECT_EQ(split("hm\n<tool_call>\n<function=f>", true, 99), "hm|<tool_call>\n<function=f>");
  EXPECT_EQ(split("the <tool_call> tag", true, 99), "the <tool_call> tag|");
}

TEST(Thinking, ShowsReasoningAsItComes) {
  ThinkingSplitter splitter(kQwen35Format, {true, true});
  EXPECT_EQ(splitter.push("abc").reasoning, "abc");
  EXPECT_TRUE(splitter.in_reasoning());
  EXPECT_EQ(splitter.push("d\n</thi").reasoning, "d");
  EXPECT_EQ(splitter.push("s").reasoning, "\n</this");
  EXPECT_EQ(splitter.push("</think>c").content, "c");
  EXPECT_FALSE(splitter.in_reasoning());
}

TEST(Thinking, GivesTheSameForEverySplit) {
  const std::vector<std::string> parts = {"<think>",     "</think>",     "\n", "\n\n", "a",     "<",
                                          "<tool_call>", "<function=f>", " ",  "</",   "think>"};
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t i = random() % 10; i > 0; --i) {
      text += parts[random() % parts.size()];
    }
    const bool starts = random() % 2 == 0;
    const std::string whole = split(text, starts, text.size() + 1);
    for (const size_t most : {1, 2, 3, 5}) {
      ASSERT_EQ(split(text, starts, most), whole) << text;
    }
  }
}

}  // namespace
}  // namespace ft::thinking_test
