#include "text/chat_format/listed_calls_parser.h"

#include <gtest/gtest.h>

#include "text/chat_format/granite.h"
#include "text/chat_format/mistral.h"

namespace ft::listed_calls_parser_test {
namespace {

/// Content unchanged, calls as "<name arguments>"; pushed in pieces of up to `most` bytes.
std::string parsed(const ChatFormat& format, const std::string& text, bool cut = false,
                   size_t most = 1 << 20) {
  static const auto schemas = ToolSchemas::parse(
      R"([{"function":{"name":"get_weather","parameters":{"properties":{"city":{"type":"string"}}}}},
      {"function":{"name":"now"}}])");
  const std::unique_ptr<ToolParser> parser = format.calls.parser(*schemas);
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most)
    parser->push(std::string_view(text).substr(from, most), events);
  parser->finish(cut, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    const bool begins = event.kind == AnswerEvent::Kind::kToolBegin;
    shown += begins ? "<" + event.text + " " : event.kind == AnswerEvent::Kind::kToolEnd ? ">" : event.text;
  }
  return shown;
}

std::string mistral(const std::string& text, bool cut = false) { return parsed(kMistralFormat, text, cut); }
std::string granite(const std::string& text, bool cut = false) { return parsed(kGraniteFormat, text, cut); }

const std::string kNamed =
    R"([TOOL_CALLS]get_weather[ARGS]{"city": "Oslo [x] {\"a\"}", "n": 12345678901234567890})";
const std::string kSeen = R"(<get_weather {"city": "Oslo [x] {\"a\"}", "n": 12345678901234567890}>)";
const std::string kItem = R"({"name": "get_weather", "arguments": {"city": "Oslo"}})";
const std::string kItemSeen = R"(<get_weather {"city": "Oslo"}>)";

TEST(ListedCallsParser, NamedCallsKeepTheirArguments) {
  EXPECT_EQ(mistral("Let me look.\n" + kNamed), "Let me look." + kSeen);
  EXPECT_EQ(mistral(kNamed + kNamed), kSeen + kSeen);
  EXPECT_EQ(mistral(kNamed + "now[ARGS]{}"), kSeen + "<now {}>") << "without the mark, of a known tool";
  EXPECT_EQ(mistral("[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}"), "<now {}>");
  EXPECT_EQ(mistral("[TOOL_CALLS] unknown [ARGS] {}"), "<unknown {}>");
  EXPECT_EQ(mistral(kNamed + " and more"), kSeen + "and more");
}

TEST(ListedCallsParser, AListOfCallsIsRead) {
  EXPECT_EQ(mistral("[TOOL_CALLS] [" + kItem + ", " + kItem + "]"), kItemSeen + kItemSeen);
  EXPECT_EQ(granite("a<|tool_call|>[" + kItem + "]"), "a" + kItemSeen);
  EXPECT_EQ(granite("<tool_call>[" + kItem + "]\n b"), kItemSeen + "b");
  EXPECT_EQ(granite("<tool_call>" + kItem), kItemSeen) << "one call without a list";
  EXPECT_EQ(granite("<|tool_call|>[{\"arguments\": {}, \"name\": \"now\", \"id\": \"a\"}]"), "<now {}>");
}

TEST(ListedCallsParser, WhatIsNoCallIsContent) {
  for (const char* text :
       {"plain [text] < and {braces}", "[TOOL_CALLS]", "[TOOL_CALLS] is a mark", "[TOOL_CALLS]now[ARGS]12",
        "[TOOL_CALLS][1, 2]", "[TOOL_CALLS]{\"a\": 1} b", "[TOOL_CALLS][", "[TOOL_CALLS][{\"a\"", "[TOOL_"})
    EXPECT_EQ(mistral(text), text);
  EXPECT_EQ(granite("[TOOL_CALLS]now[ARGS]{}"), "[TOOL_CALLS]now[ARGS]{}");
}

TEST(ListedCallsParser, WhatAModelLeavesOutIsRepaired) {
  EXPECT_EQ(granite("<|tool_call|>[" + kItem), kItemSeen) << "the end of the list";
  EXPECT_EQ(granite("<|tool_call|>[" + kItem.substr(0, kItem.size() - 1)), kItemSeen) << "a brace";
  EXPECT_EQ(mistral(kNamed.substr(0, kNamed.size() - 1)), kSeen);
}

TEST(ListedCallsParser, ACutCallKeepsWhatWasWritten) {
  EXPECT_EQ(mistral(R"([TOOL_CALLS]get_weather[ARGS]{"city": "Os)", true), R"(<get_weather {"city": "Os)");
  EXPECT_EQ(mistral("a[TOOL_CALLS]get_wea", true), "a");
  EXPECT_EQ(granite(R"(<|tool_call|>[{"name": "now", "arguments": {"a)", true), R"(<now {"a)");
}

TEST(ListedCallsParser, EverySplitGivesTheSame) {
  for (const ChatFormat* format : {&kMistralFormat, &kGraniteFormat}) {
    for (const std::string& text :
         {"a\n" + kNamed + " b " + kNamed + "now[ARGS]{} now[AR x",
          "[TOOL_CALLS][" + kItem + " ," + kItem + "] c", "<tool_call>[" + kItem + "]<|tool_call|>" + kItem,
          std::string("[TOOL_CALLS]now[CALL_ID]a[ARGS] { } "),
          std::string("[TOOL_CALLS][{\"name\": 1}] [TOOL_CALLS]now[ARGS]{]"),
          std::string("<|tool_call|>[ , {")}) {
      for (size_t most = 1; most < text.size(); ++most) {
        EXPECT_EQ(parsed(*format, text, false, most), parsed(*format, text)) << most << " " << text;
        EXPECT_EQ(parsed(*format, text, true, most), parsed(*format, text, true)) << most << " " << text;
      }
    }
  }
}

}  // namespace
}  // namespace ft::listed_calls_parser_test
