#include "text/answer.h"

#include <gtest/gtest.h>

#include "text/chat_format/qwen3_5.h"

namespace ft::answer_test {
namespace {

const Tokenizer& tiny() {
  static const auto loaded = Tokenizer::load("assets/qwen3.5-tiny");
  EXPECT_TRUE(loaded.ok());
  return *loaded;
}

/// By AnswerEvent::Kind, up to the kinds that an Answer makes.
const char* const kNames[] = {"p", "t", "C", "R", "B", "A", "E"};

/// Events as "R:reasoning;C:content;", joined by kind.
std::string shown(Answer& answer, const std::string& text) {
  const auto ids = tiny().encode(text, false);
  EXPECT_TRUE(ids.ok());
  std::vector<AnswerEvent> all;
  auto take = [&all](const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) {
      if (!all.empty() && all.back().kind == event.kind && event.kind != AnswerEvent::Kind::kToolEnd) {
        all.back().text += event.text;
      } else {
        all.push_back(event);
      }
    }
  };
  for (const int32_t id : *ids) {
    take(answer.push(id));
    if (answer.matched_stop()) {
      break;
    }
  }
  take(answer.finish(false));
  std::string out;
  for (const AnswerEvent& event : all) {
    out += std::string(kNames[static_cast<size_t>(event.kind)]) + ":" + event.text + ";";
  }
  return out;
}

Answer answer_of(const AnswerOptions& options) {
  auto answer = Answer::create(tiny(), kQwen35Format, options);
  EXPECT_TRUE(answer.ok());
  return std::move(*answer);
}

TEST(Answer, WhereCallsComeFirstAnAnswerThatBeginsOtherwiseHasNone) {
  AnswerOptions options;
  options.starts_in_reasoning = options.parse_tools = options.calls_come_first = true;
  options.tools_json = R"([{"function":{"name":"add","parameters":{"properties":{}}}}])";
  constexpr const char* kCall = "<tool_call>\n<function=add>\n</function>\n</tool_call>";
  const std::string json = std::string(R"({"a": ")") + kCall + R"(", "b": "<function=add>"})";
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "hm</think>\n\n" + json + "<|im_end|>"), "R:hm;C:" + json + ";");
  EXPECT_EQ(answer.tool_calls(), 0u);
  Answer calls = answer_of(options);
  EXPECT_EQ(shown(calls, std::string("hm</think>\n\n") + kCall + "\n" + kCall + "<|im_end|>"),
            "R:hm;B:add;A:{};E:;B:add;A:{};E:;");
}

TEST(Answer, DividesReasoningContentAndToolCalls) {
  AnswerOptions options;
  options.starts_in_reasoning = true;
  options.parse_tools = true;
  options.tools_json = R"([{"function":{"name":"add","parameters":{"properties":{"a":{"type":"number"}}}}}])";
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer,
                  "hm 🦉\n</think>\n\nYes.\n\n<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n"
                  "<parameter=note>\nit's\n</parameter>\n</function>\n</tool_call><|im_end|>"),
            R"(R:hm 🦉;C:Yes.;B:add;A:{"a":2,"note":"it's"};E:;)");
  EXPECT_EQ(answer.tool_calls(), 1u);
  EXPECT_FALSE(answer.matched_stop().has_value());
}

TEST(Answer, EndsAtAStopStringWithoutLeakingIt) {
  AnswerOptions options;
  options.stops = {"zzz", "STOP"};
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "one two STOP three"), "C:one two ;");
  EXPECT_EQ(answer.matched_stop(), 1u);
  EXPECT_TRUE(answer.push(70).empty());
}

TEST(Answer, StopStringsEndTheContentAndNotTheReasoning) {
  AnswerOptions options;
  options.starts_in_reasoning = true;
  options.stops = {"\n", "add"};
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "I add\none line.\n</think>\n\nfirst\nsecond"), "R:I add\none line.;C:first;");
  EXPECT_EQ(answer.matched_stop(), 0u);
  Answer unfinished = answer_of(options);
  EXPECT_EQ(shown(unfinished, "I add\none"), "R:I add\none;");
  EXPECT_FALSE(unfinished.matched_stop().has_value());
}

TEST(Answer, AStopStringDoesNotReachFromReasoningIntoContent) {
  AnswerOptions options;
  options.starts_in_reasoning = true;
  options.stops = {"endbegin", "</think>"};
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "end</think>begin"), "R:end;C:begin;");
}

TEST(Answer, StopStringsLeaveToolCallsWhole) {
  AnswerOptions options;
  options.parse_tools = true;
  options.stops = {"\n", "it's", "add"};
  options.tools_json = R"([{"function":{"name":"add","parameters":{"properties":{}}}}])";
  const std::string call =
      "<tool_call>\n<function=add>\n<parameter=note>\nit's\n</parameter>\n</function>\n</tool_call>";
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "i" + call + "it's over"), R"(C:i;B:add;A:{"note":"it's"};E:;)");
  EXPECT_EQ(answer.matched_stop(), 1u);
}

TEST(Answer, NothingFollowsAStopStringInTheSamePush) {
  AnswerOptions options;
  options.parse_tools = true;
  options.stops = {"STOP"};
  options.tools_json = R"([{"function":{"name":"add","parameters":{"properties":{}}}}])";
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "aSTOP<tool_call>\n<function=add>\n</function>\n</tool_call>"), "C:a;");
  EXPECT_EQ(answer.tool_calls(), 0u);
}

TEST(Answer, ShowsEverythingAsContentWhenNothingIsParsed) {
  AnswerOptions options;
  options.split_reasoning = false;
  options.skip_special = false;
  Answer answer = answer_of(options);
  EXPECT_EQ(shown(answer, "<think>a</think><tool_call><|im_end|>"),
            "C:<think>a</think><tool_call><|im_end|>;");
}

TEST(Answer, RefusesBadStopsAndTools) {
  AnswerOptions options;
  options.stops = {""};
  EXPECT_FALSE(Answer::create(tiny(), kQwen35Format, options).ok());
  options.stops.clear();
  options.parse_tools = true;
  options.tools_json = "3";
  EXPECT_FALSE(Answer::create(tiny(), kQwen35Format, options).ok());
}

}  // namespace
}  // namespace ft::answer_test
