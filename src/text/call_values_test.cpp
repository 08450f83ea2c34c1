// Calls of a tool whose parameters have alternatives: the whole call decides its values.
#include "text/call_values.h"

#include <gtest/gtest.h>
#include <memory>

#include "text/chat_format/gemma4_parser.h"
#include "text/chat_format/qwen3_5_parser.h"

namespace ft::call_values_test {
namespace {

const std::string kTools = R"([{"type":"function","function":{"name":"f","parameters":{"anyOf":[
  {"type":"object","properties":{"n":{"type":"integer"},"kind":{"const":"number"}},
   "required":["n","kind"],"additionalProperties":false},
  {"type":"object","properties":{"n":{"enum":["1","b"]},"kind":{"const":"text"},"more":{"type":"string"}},
   "required":["n"]}]}}}])";

/// The calls as "[arguments]", or "[arguments" of one that was cut, pushed in pieces of up to `most` bytes.
template <class Parser>
std::string parsed(const std::string& text, bool cut = false, size_t most = 1 << 20) {
  Parser parser(std::move(ToolSchemas::parse(kTools)).value());
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most) {
    parser.push(std::string_view(text).substr(from, most), events);
  }
  parser.finish(cut, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    const bool begins = event.kind == AnswerEvent::Kind::kToolBegin;
    shown += begins ? "[" : event.kind == AnswerEvent::Kind::kToolEnd ? "]" : event.text;
  }
  return shown;
}

std::string qwen(std::initializer_list<std::pair<const char*, const char*>> values) {
  std::string all = "<tool_call>\n<function=f>\n";
  for (const auto& [name, text] : values) {
    all += std::string("<parameter=") + name + ">\n" + text + "\n</parameter>\n";
  }
  return all + "</function>\n</tool_call>";
}

TEST(CallValues, AParameterThatComesLaterDecides) {
  EXPECT_EQ(parsed<Qwen35Parser>(qwen({{"n", "1"}, {"kind", "number"}})), R"([{"n":1,"kind":"number"}])");
  EXPECT_EQ(parsed<Qwen35Parser>(qwen({{"n", "1"}, {"kind", "text"}})), R"([{"n":"1","kind":"text"}])");
  EXPECT_EQ(parsed<Qwen35Parser>(qwen({{"n", "1"}, {"more", "2"}})), R"([{"n":"1","more":"2"}])");
  EXPECT_EQ(parsed<Qwen35Parser>(qwen({{"n", "7"}, {"more", "2"}})), R"([{"n":7,"more":"2"}])")
      << "no alternative fits";
  EXPECT_EQ(parsed<Qwen35Parser>(qwen({})), "[{}]");
}

TEST(CallValues, EverySplitGivesTheSame) {
  const std::string text = qwen({{"n", "1"}, {"kind", "text"}, {"more", "a</par\n"}});
  for (size_t most = 1; most < 9; ++most) {
    EXPECT_EQ(parsed<Qwen35Parser>(text, false, most), parsed<Qwen35Parser>(text)) << most;
  }
}

TEST(CallValues, ACutCallIsWhatWasWrittenOfIt) {
  const std::string text = qwen({{"n", "1"}, {"more", "abc"}});
  const size_t end = text.find("</function>") + 11;  // then the call is complete
  for (size_t size = text.find("<parameter=more>"); size < end; ++size) {
    const std::string shown = parsed<Qwen35Parser>(text.substr(0, size), true);
    EXPECT_TRUE(std::string(R"([{"n":1,"more":"abc")").starts_with(shown)) << shown;
    EXPECT_EQ(shown.find('<'), std::string::npos) << shown;
  }
  EXPECT_EQ(parsed<Qwen35Parser>("<tool_call>\n<function=f>\n<parameter=n>\n", true), R"([{"n":)");
}

TEST(CallValues, GemmasCallsDecideInTheSameWay) {
  const std::string quote = "<|\"|>";
  const auto call = [](const std::string& values) {
    return "<|tool_call>call:f{" + values + "}<tool_call|>";
  };
  EXPECT_EQ(parsed<Gemma4Parser>(call("kind:" + quote + "number" + quote + ",n:1")),
            R"([{"kind":"number","n":1}])");
  EXPECT_EQ(parsed<Gemma4Parser>(call("n:" + quote + "1" + quote)), R"([{"n":"1"}])");
  EXPECT_EQ(parsed<Gemma4Parser>(call("more:" + quote + "{a},b" + quote + ",n:" + quote + "b" + quote)),
            R"([{"more":"{a},b","n":"b"}])");
  EXPECT_EQ(parsed<Gemma4Parser>("<|tool_call>call:f{more:" + quote + "ab", true), R"([{"more":"ab)");
}

}  // namespace
}  // namespace ft::call_values_test
