#include "text/chat_format/glm4_moe_parser.h"

#include <gtest/gtest.h>

namespace ft::glm4_moe_parser_test {
namespace {

/// Content unchanged, calls as "[name arguments]"; pushed in pieces of up to `most` bytes.
std::string parsed(const std::string& text, bool cut = false, size_t most = 1 << 20) {
  static const auto schemas = ToolSchemas::parse(
      R"([{"function":{"name":"get_weather","parameters":{"properties":{"city":{"type":"string"},
      "days":{"type":"integer"},"list":{"type":"array"}}}}},{"function":{"name":"now"}}])");
  Glm4MoeParser parser(*schemas);
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

const std::string kCall =
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>New\nYork <b></arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>";
const std::string kSeen = R"([get_weather {"city":"New\nYork <b>","days":3}])";

TEST(Glm4MoeParser, CallsWithAndWithoutLineEndsBecomeJson) {
  EXPECT_EQ(parsed("Let me look.\n" + kCall), "Let me look." + kSeen);
  EXPECT_EQ(parsed(kCall + "\n" + kCall), kSeen + kSeen);
  EXPECT_EQ(parsed("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value>"
                   "<arg_key>list</arg_key><arg_value>[1, 2]</arg_value></tool_call>"),
            R"([get_weather {"city":"Oslo","list":[1, 2]}])");
  EXPECT_EQ(parsed("<tool_call>now\n</tool_call>"), "[now {}]");
  EXPECT_EQ(parsed("<tool_call>unknown</tool_call>"), "[unknown {}]");
}

TEST(Glm4MoeParser, WhatIsNoCallIsContent) {
  for (const char* text : {"plain < text", "the tag <tool_call> begins a call\nof a tool", "<tool_call>",
                           "<tool_call>\n<b>", "<tool_calls>"})
    EXPECT_EQ(parsed(text), text);
}

TEST(Glm4MoeParser, WhatAModelLeavesOutIsRepaired) {
  const std::string open = kCall.substr(0, kCall.size() - 12);
  EXPECT_EQ(parsed(open), kSeen) << "the end of the call";
  EXPECT_EQ(parsed(open + kCall), kSeen + kSeen);
  EXPECT_EQ(parsed("<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo"),
            R"([get_weather {"city":"Oslo"}])");
  EXPECT_EQ(parsed("<tool_call>get_weather\n<arg_key>city</arg_key>\n</tool_call>"), "[get_weather {}]");
  EXPECT_EQ(parsed("<tool_call>get_weather<arg_key>days</arg_key><arg_value>1</arg_value>"
                   "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"),
            R"([get_weather {"days":1}])")
      << "the first one counts";
}

TEST(Glm4MoeParser, ATagInAStringOfJsonIsText) {
  const auto with = [](const std::string& value) {
    return "<tool_call>get_weather\n<arg_key>list</arg_key>\n<arg_value>" + value +
           "</arg_value>\n<arg_key>days</arg_key><arg_value>1</arg_value></tool_call>";
  };
  for (const char* list : {R"(["a</arg_value>b"])", R"(["</arg_value>", "</arg_value> <arg_val"])",
                           R"([{"a \" [</arg_value>": "</arg_value>\n<"}])", R"(["\\", 1])"}) {
    const std::string text = with(list),
                      seen = std::string("[get_weather {\"list\":") + list + ",\"days\":1}]";
    EXPECT_EQ(parsed(text), seen);
    for (size_t most = 1; most < text.size(); ++most) EXPECT_EQ(parsed(text, false, most), seen) << most;
  }
  EXPECT_EQ(parsed(with("[\"a")), R"([get_weather {"list":"[\"a","days":1}])") << "the call continues";
  std::string many;
  for (int i = 0; i < 20; ++i) many += "</arg_value>x";
  EXPECT_NE(parsed(with("[\"" + many + "\"]")).find("\"days\":1}]"), std::string::npos) << "a bounded search";
}

TEST(Glm4MoeParser, ACutCallKeepsWhatWasWritten) {
  EXPECT_EQ(parsed("<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Os</arg", true),
            R"([get_weather {"city":"Os)");
  EXPECT_EQ(parsed("<tool_call>get_weather\n<arg_key>list</arg_key>\n<arg_value>[1, ", true),
            R"([get_weather {"list":[1, )");
  EXPECT_EQ(parsed("a<tool_call>get_wea", true), "a");
}

TEST(Glm4MoeParser, EverySplitGivesTheSame) {
  for (const std::string& text :
       {"a\n" + kCall + " b " + kCall,
        std::string(
            "<tool_call>now<arg_key>list</arg_key><arg_value>[\"a</arg_value> b</arg_value> <arg_key>"),
        std::string("<tool_call>x y\nz</tool_call> <tool_call>now\n  c"),
        std::string(
            "<tool_call>get_weather<arg_key>days</arg_key><arg_key>city</arg_key><arg_value></arg")}) {
    for (size_t most = 1; most < text.size(); ++most) {
      EXPECT_EQ(parsed(text, false, most), parsed(text)) << most;
      EXPECT_EQ(parsed(text, true, most), parsed(text, true)) << most;
    }
  }
}

}  // namespace
}  // namespace ft::glm4_moe_parser_test
