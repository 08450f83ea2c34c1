#include "text/chat_format/gemma4_parser.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

namespace ft::gemma4_parser_test {
namespace {

const std::string kTools = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
  "properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
  "o":{"type":"object"},"a":{"type":"array"},"m":{"type":["string","null"]}}}}},
  {"type":"function","function":{"name":"g","parameters":{}}}])";

/// Content unchanged, calls as "[name arguments]"; pushed in pieces of up to `most` bytes.
std::string parsed(const std::string& text, size_t most = 1 << 20) {
  static const auto schemas = ToolSchemas::parse(kTools);
  Gemma4Parser parser(*schemas);
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most) {
    parser.push(std::string_view(text).substr(from, most), events);
  }
  parser.finish(false, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    const bool begins = event.kind == AnswerEvent::Kind::kToolBegin;
    shown += begins ? "[" + event.text + " " : event.kind == AnswerEvent::Kind::kToolEnd ? "]" : event.text;
  }
  return shown;
}

std::string call(const std::string& arguments, const std::string& name = "f") {
  return "<|tool_call>call:" + name + "{" + arguments + "}<tool_call|>";
}

std::string value_of(const std::string& key, const std::string& value) {
  const std::string shown = parsed(call(key + ":" + value));
  const std::string head = "[f {\"" + key + "\":";
  EXPECT_EQ(shown.rfind(head, 0), 0u) << shown;
  return shown.substr(head.size(), shown.size() - head.size() - 2);
}

TEST(Gemma4Parser, ReadsContentAndCalls) {
  EXPECT_EQ(parsed("Let me see.\n" + call("i:2,s:<|\"|>Oslo<|\"|>")), R"(Let me see.[f {"i":2,"s":"Oslo"}])");
  EXPECT_EQ(parsed(call("") + call("", "g")), "[f {}][g {}]");
  EXPECT_EQ(parsed("plain < text \n"), "plain < text \n");
  EXPECT_EQ(parsed(call("") + "\n\nafter. "), "[f {}]after.");
}

TEST(Gemma4Parser, AStringHoldsAnythingUpToItsQuote) {
  EXPECT_EQ(value_of("s", "<|\"|>{a, b: [1]}\n<tool_call|> \"q\" <|\"|>"),
            R"("{a, b: [1]}\n<tool_call|> \"q\" ")");
  EXPECT_EQ(parsed(call("o:{k:<|\"|>}],<|\"|>},i:1")), R"([f {"o":{"k":"}],"},"i":1}])");
}

TEST(Gemma4Parser, ConvertsByTheSchemasTypes) {
  EXPECT_EQ(value_of("s", "12"), R"("12")");
  EXPECT_EQ(value_of("s", "bare text"), R"("bare text")");
  EXPECT_EQ(value_of("i", "<|\"|>5<|\"|>"), "5");
  EXPECT_EQ(value_of("i", "5.0"), "5");
  EXPECT_EQ(value_of("i", "five"), R"("five")");
  EXPECT_EQ(value_of("n", "1e-3"), "1e-3");
  EXPECT_EQ(value_of("b", "True"), "true");
  EXPECT_EQ(value_of("m", "null"), "null");
  EXPECT_EQ(value_of("unknown", "3"), "3");
  EXPECT_EQ(value_of("unknown", "x"), R"("x")");
  EXPECT_EQ(value_of("a", "[1,<|\"|>x, y<|\"|>,{k:true}]"), R"([1,"x, y",{"k":true}])");
  EXPECT_EQ(value_of("o", "{a:{b:[]},<|\"|>c d<|\"|>:null,e:-1.5}"), R"({"a":{"b":[]},"c d":null,"e":-1.5})");
  EXPECT_EQ(value_of("o", R"({"a": "x, }", "b": [1, 2]})"), R"({"a":"x, }","b":[1,2]})");
  EXPECT_EQ(value_of("s", R"("quoted, text")"), R"("quoted, text")");
}

TEST(Gemma4Parser, KeepsTheFirstOfRepeatedKeys) {
  EXPECT_EQ(parsed(call("i:1,i:2,s:<|\"|>x<|\"|>,s:<|\"|>y<|\"|>")), R"([f {"i":1,"s":"x"}])");
}

TEST(Gemma4Parser, RepairsWhatModelsWrite) {
  EXPECT_EQ(parsed("<|tool_call>call:f{i:1}" + call("i:2")), R"([f {"i":1}][f {"i":2}])") << "no closing tag";
  EXPECT_EQ(parsed(call("i:1") + "<tool_call|>\n"), R"([f {"i":1}])") << "one too many";
  EXPECT_EQ(parsed("<|tool_call>f{i:1}<tool_call|>"), R"([f {"i":1}])");
  EXPECT_EQ(parsed("<|tool_call>call: g <tool_call|>x"), "<|tool_call>call: g <tool_call|>x");
  EXPECT_EQ(parsed("<|tool_call>call:g<tool_call|>x"), "[g {}]x");
  EXPECT_EQ(parsed("<|tool_call>call:f{i:1<tool_call|>x"), R"([f {"i":1}]x)") << "no bracket";
  EXPECT_EQ(parsed("<|tool_call>call:f{i<tool_call|> a:b"), "[f {}]a:b") << "a key without a value";
  EXPECT_EQ(parsed("<|tool_call>call:f{s:<|\"|>cut"), R"([f {"s":"cut"}])");
  EXPECT_EQ(parsed("<|tool_call>call:f{o:{a:1"), R"([f {"o":{"a":1}}])");
  EXPECT_EQ(parsed("<|tool_call>call:f{i:"), R"([f {"i":""}])");
}

TEST(Gemma4Parser, ShowsWhatOnlyLooksLikeACall) {
  EXPECT_EQ(parsed("the <|tool_call> tag"), "the <|tool_call> tag");
  EXPECT_EQ(parsed("a <|tool_ca"), "a <|tool_ca");
  EXPECT_EQ(parsed("x <|tool_call>"), "x <|tool_call>");
}

TEST(Gemma4Parser, StreamsStringsAsTheyCome) {
  Gemma4Parser parser(*ToolSchemas::parse(kTools));
  std::vector<AnswerEvent> events;
  parser.push("<|tool_call>call:f{s:<|\"|>ab", events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, AnswerEvent::Kind::kToolBegin);
  EXPECT_EQ(events[1].text, R"({"s":"ab)");
  events.clear();
  parser.push("c<|", events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "c");
}

TEST(Gemma4Parser, GivesTheSameForEverySplitAndAlwaysJson) {
  const std::vector<std::string> parts = {
      "<|tool_call>", "<tool_call|>", "call:", "f", "g",  "{", "}", "[",  "]", "s:", "i:",
      "o:",           "<|\"|>",       "\"",    ",", "\n", " ", "x", "12", "<", "<|", "\\"};
  std::mt19937 random(5);
  for (int round = 0; round < 6000; ++round) {
    std::string text = random() % 2 == 0 ? "<|tool_call>call:f{" : "";
    for (size_t i = random() % 14; i > 0; --i) text += parts[random() % parts.size()];
    const std::string whole = parsed(text);
    for (const size_t most : {1, 2, 3, 7}) ASSERT_EQ(parsed(text, most), whole) << text;
    Gemma4Parser parser(*ToolSchemas::parse(kTools));
    std::vector<AnswerEvent> events;
    parser.push(text, events);
    parser.finish(false, events);
    std::string arguments;
    for (const AnswerEvent& event : events) {
      arguments += event.kind == AnswerEvent::Kind::kToolArguments ? event.text : "";
      if (event.kind != AnswerEvent::Kind::kToolEnd) continue;
      ASSERT_TRUE(nlohmann::json::accept(arguments)) << text << "\n" << arguments;
      arguments.clear();
    }
    ASSERT_EQ(arguments, "") << text;
  }
}

TEST(Gemma4Parser, ADeepValueIsAString) {
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_EQ(value_of("a", deep), "\"" + deep + "\"");
}

/// The arguments of a call whose text was cut, and "|" if the call has ended.
std::string cut(const std::string& text) {
  static const auto schemas = ToolSchemas::parse(kTools);
  Gemma4Parser parser(*schemas);
  std::vector<AnswerEvent> events;
  parser.push(text, events);
  parser.finish(true, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    shown += event.kind == AnswerEvent::Kind::kToolBegin ? event.text + " " : event.text;
    if (event.kind == AnswerEvent::Kind::kToolEnd) shown += "|";
  }
  return shown;
}

TEST(Gemma4Parser, ACutCallIsWhatWasWrittenOfIt) {
  EXPECT_EQ(cut("<|tool_call>call:f{s:<|\"|>half"), R"(f {"s":"half)");
  EXPECT_EQ(cut("<|tool_call>call:f{s:<|\"|>a<|\"|>"), R"(f {"s":"a")");
  EXPECT_EQ(cut("<|tool_call>call:f{s:<|\"|>a<|\"|>,i:12"), R"(f {"s":"a","i":12)");
  EXPECT_EQ(cut("<|tool_call>call:f{o:{k:[<|\"|>x<|\"|>,<|\"|>y"), R"(f {"o":{"k":["x","y)");
  EXPECT_EQ(cut("<|tool_call>call:f{o:{k:1,lo"), R"(f {"o":{"k":1,)");
  EXPECT_EQ(cut("<|tool_call>call:f{s"), "f ");
  for (const char* nothing : {"<|tool_call>", "<|tool_call>call", "<|tool_call>call:f"})
    EXPECT_EQ(cut(nothing), "");
  EXPECT_EQ(cut("<|tool_call>call:f{i:1}"), R"(f {"i":1}|)");
  EXPECT_EQ(cut("text"), "text");
  const std::string whole = call("s:<|\"|>x<|\"|>,o:{k:{l:[1,2]}},a:[<|\"|>y<|\"|>],b:true");
  for (size_t size = std::string_view("<|tool_call>").size(); size < whole.size(); ++size) {
    const std::string shown = cut(whole.substr(0, size));
    ASSERT_EQ(shown.find('<'), std::string::npos) << shown;
    if (shown.ends_with("|") || shown.empty()) continue;
    ASSERT_FALSE(nlohmann::json::accept(shown.substr(shown.find(' ') + 1))) << shown;
  }
}

TEST(Gemma4Parser, ReadsTheNamesOfMcpServers) {
  const std::string tools = R"([{"name":"files/read"},{"name":"größe ändern"}])";
  for (const std::string& name : {std::string("files/read"), std::string("größe ändern")}) {
    for (const size_t most : {1, 3, 100}) {
      Gemma4Parser parser(*ToolSchemas::parse(tools));
      std::vector<AnswerEvent> events;
      const std::string text = call("filter[status]:<|\"|>open<|\"|>", name);
      for (size_t from = 0; from < text.size(); from += most) {
        parser.push(std::string_view(text).substr(from, most), events);
      }
      parser.finish(false, events);
      ASSERT_EQ(events.front().kind, AnswerEvent::Kind::kToolBegin) << events.front().text;
      EXPECT_EQ(events.front().text, name);
      std::string arguments;
      for (const AnswerEvent& event : events) {
        if (event.kind == AnswerEvent::Kind::kToolArguments) arguments += event.text;
      }
      EXPECT_EQ(arguments, R"({"filter[status]":"open"})");
    }
  }
  EXPECT_EQ(parsed("<|tool_call>call:no such tool{a:1}"), "<|tool_call>call:no such tool{a:1}");
}

}  // namespace
}  // namespace ft::gemma4_parser_test
