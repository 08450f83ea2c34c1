#include "text/chat_format/qwen3_5_parser.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>

namespace ft::qwen3_5_parser_test {
namespace {

const std::string kTools = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
  "$defs":{"N":{"type":"integer"}},
  "properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
  "o":{"type":"object"},"a":{"type":"array"},"m":{"type":["string","null"]},"u":{"anyOf":[{"type":"integer"},
  {"type":"null"},{"type":"string"}]},"r":{"$ref":"#/$defs/N"},"e":{"enum":["x","y"]}}}}},
  {"type":"function","function":{"name":"g","parameters":{}}}])";

ToolSchemas schemas() {
  static const auto once = ToolSchemas::parse(kTools);
  EXPECT_TRUE(once.ok());
  return *once;
}

/// Content unchanged, calls as "[name arguments]"; pushed in pieces of up to `most` bytes.
std::string parsed(const std::string& text, size_t most = 1 << 20) {
  Qwen35Parser parser(schemas());
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most) {
    parser.push(std::string_view(text).substr(from, most), events);
  }
  parser.finish(false, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::kToolBegin:
        shown += "[" + event.text + " ";
        break;
      case AnswerEvent::Kind::kToolEnd:
        shown += "]";
        break;
      default:
        shown += event.text;
    }
  }
  return shown;
}

std::string call(const std::string& parameters, const std::string& name = "f") {
  return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
}

std::string value_of(const std::string& key, const std::string& value) {
  const std::string shown = parsed(call("<parameter=" + key + ">\n" + value + "\n</parameter>\n"));
  const std::string head = "[f {\"" + key + "\":";
  EXPECT_EQ(shown.rfind(head, 0), 0u) << shown;
  return shown.substr(head.size(), shown.size() - head.size() - 2);
}

TEST(Qwen35Parser, ReadsContentAndCalls) {
  EXPECT_EQ(
      parsed("Let me see.\n\n" + call("<parameter=s>\nOslo\n</parameter>\n<parameter=i>\n2\n</parameter>\n")),
      R"(Let me see.[f {"s":"Oslo","i":2}])");
  EXPECT_EQ(parsed(call("") + "\n" + call("", "g") + "\n"), "[f {}][g {}]");
  EXPECT_EQ(parsed("plain text \n"), "plain text \n");
  EXPECT_EQ(parsed(call("") + "\n\nafter. "), "[f {}]after.");
}

TEST(Qwen35Parser, ConvertsByTheSchemasTypes) {
  EXPECT_EQ(value_of("s", "12"), R"("12")");
  EXPECT_EQ(value_of("s", "null"), R"("null")");
  EXPECT_EQ(value_of("unknown", "[1]"), R"("[1]")");
  EXPECT_EQ(value_of("i", "-7"), "-7");
  EXPECT_EQ(value_of("i", "5.0"), "5");
  EXPECT_EQ(value_of("i", "007"), "7");
  EXPECT_EQ(value_of("i", "5.5"), R"("5.5")");
  EXPECT_EQ(value_of("i", "five"), R"("five")");
  EXPECT_EQ(value_of("i", "123456789012345678901234567890"), "123456789012345678901234567890");
  EXPECT_EQ(value_of("n", "3"), "3");
  EXPECT_EQ(value_of("n", "3.50"), "3.50");
  EXPECT_EQ(value_of("n", "1e-3"), "1e-3");
  EXPECT_EQ(value_of("n", "nan"), R"("nan")");
  EXPECT_EQ(value_of("b", "True"), "true");
  EXPECT_EQ(value_of("b", "FALSE"), "false");
  EXPECT_EQ(value_of("b", "1"), R"("1")");
  EXPECT_EQ(value_of("o", R"({"k": [1, "x"]})"), R"({"k": [1, "x"]})");
  EXPECT_EQ(value_of("o", R"({'k': True, "n": None, 't': (1, 2,), 'q': 'it\'s "so"\n'})"),
            R"({"k":true,"n":null,"t":[1,2],"q":"it's \"so\"\n"})");
  EXPECT_EQ(value_of("o", "[1]"), R"("[1]")");
  EXPECT_EQ(value_of("a", "[1, 2]"), "[1, 2]");
  EXPECT_EQ(value_of("a", "[f(x)]"), R"("[f(x)]")");
  EXPECT_EQ(value_of("m", "null"), "null");
  EXPECT_EQ(value_of("m", "text"), R"("text")");
  EXPECT_EQ(value_of("u", "4"), "4");
  EXPECT_EQ(value_of("u", "null"), "null");
  EXPECT_EQ(value_of("u", "four"), R"("four")");
  EXPECT_EQ(value_of("r", "4"), "4");
  EXPECT_EQ(value_of("e", "x"), R"("x")");
}

TEST(Qwen35Parser, KeepsValuesVerbatimButForOneNewlineAtEachEnd) {
  EXPECT_EQ(value_of("s", ""), R"("")");
  EXPECT_EQ(value_of("s", "\n a < b \n\n"), R"("\n a < b \n\n")");
  EXPECT_EQ(value_of("s", "\"q\" \\ \t\x01 é"), "\"\\\"q\\\" \\\\ \\t\\u0001 é\"");
  EXPECT_EQ(parsed("<tool_call><function=f><parameter=s>x</parameter></function></tool_call>"),
            R"([f {"s":"x"}])");
  EXPECT_EQ(parsed(call("<parameter=s>\n</parameter>\n")), R"([f {"s":""}])");
}

TEST(Qwen35Parser, EndsAValueOnlyWhereTheCallGoesOn) {
  EXPECT_EQ(value_of("s", "a </parameter> b\n</parameter>c"), R"("a </parameter> b\n</parameter>c")");
  EXPECT_EQ(value_of("s", "<function=g>\n</function>\n<tool_call>"),
            R"("<function=g>\n</function>\n<tool_call>")");
}

TEST(Qwen35Parser, KeepsTheFirstOfRepeatedKeys) {
  EXPECT_EQ(parsed(call("<parameter=i>1</parameter><parameter=i>2</parameter><parameter=s>x</parameter>")),
            R"([f {"i":1,"s":"x"}])");
}

TEST(Qwen35Parser, RepairsWhatModelsWrite) {
  EXPECT_EQ(parsed("<function=f>\n<parameter=i>\n1\n</parameter>\n</function>\n</tool_call>"),
            R"([f {"i":1}])");
  EXPECT_EQ(parsed("<function=unknown>\n</function>"), "<function=unknown>\n</function>");
  EXPECT_EQ(parsed("<tool_call><function=f></function><function=g></function></tool_call>"), "[f {}][g {}]");
  EXPECT_EQ(parsed("<tool_call><function=f</function></tool_call>"), "[f {}]");
  EXPECT_EQ(parsed("<tool_call><function=f><parameter=i>1</parameter></tool_call>x"), R"([f {"i":1}]x)");
  EXPECT_EQ(parsed("<tool_call>\n<function=f>\n<parameter=s>\ncut"), R"([f {"s":"cut"}])");
  EXPECT_EQ(parsed("<tool_call>\n<function=f>\n<parameter=i>\n12"), R"([f {"i":12}])");
  EXPECT_EQ(parsed("<tool_call>\n<function=f>\n<parameter=i>\n1\n</parameter>\n"), R"([f {"i":1}])");
  EXPECT_EQ(parsed("<tool_call>\n<function=f>\n<param"), "[f {}]");
  EXPECT_EQ(parsed("<tool_call>\n<function=f"), "");
}

TEST(Qwen35Parser, AcceptsHermesJson) {
  EXPECT_EQ(parsed(R"(<tool_call>{"name": "f", "arguments": {"s": "</tool_call>", "i": 1}}</tool_call>)"),
            R"([f {"s": "</tool_call>", "i": 1}])");
  EXPECT_EQ(parsed(R"(<tool_call>{"name": "g", "arguments": "{\"a\": 1}"})"), R"([g {"a": 1}])");
  EXPECT_EQ(parsed(R"(<tool_call>{"name": "g"}</tool_call>)"), "[g {}]");
  EXPECT_EQ(parsed("<tool_call>{oops}</tool_call>"), "<tool_call>{oops}</tool_call>");
}

TEST(Qwen35Parser, ABrokenCallInJsonIsTriedALimitedNumberOfTimes) {
  const auto call_with = [](int closes, const std::string& before, const std::string& after) {
    std::string text = R"(<tool_call>{"name": "f", "arguments": {"s": )" + before;
    for (int i = 0; i < closes; ++i) text += "</tool_call>";
    return text + after + R"(}}</tool_call>)";
  };
  EXPECT_EQ(parsed(call_with(16, "x", "y")), call_with(16, "x", "y"));
  EXPECT_EQ(parsed(call_with(100, "x", "y")), call_with(100, "x", "y"));
  EXPECT_TRUE(parsed(call_with(100, "\"", "\"")).starts_with("[f {")) << "in a string they are text";
}

TEST(Qwen35Parser, ShowsWhatOnlyLooksLikeACall) {
  EXPECT_EQ(parsed("the <tool_call> tag"), "the <tool_call> tag");
  EXPECT_EQ(parsed("a <tool_ca"), "a <tool_ca");
  EXPECT_EQ(parsed("x <tool_call>"), "x <tool_call>");
}

TEST(Qwen35Parser, StreamsStringsAsTheyCome) {
  Qwen35Parser parser(schemas());
  std::vector<AnswerEvent> events;
  parser.push("<tool_call>\n<function=f>\n<parameter=s>\nab", events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, AnswerEvent::Kind::kToolBegin);
  EXPECT_EQ(events[1].text, R"({"s":"ab)");
  events.clear();
  parser.push("c\n</para", events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "c");
}

TEST(Qwen35Parser, GivesTheSameForEverySplitAndAlwaysJson) {
  const std::vector<std::string> parts = {"<tool_call>",
                                          "</tool_call>",
                                          "<function=f>",
                                          "<function=g>",
                                          "</function>",
                                          "<parameter=s>",
                                          "<parameter=i>",
                                          "<parameter=o>",
                                          "</parameter>",
                                          "\n",
                                          " ",
                                          "x",
                                          "12",
                                          "{'a': 1}",
                                          "{\"name\":\"f\"}",
                                          "<",
                                          "<param",
                                          "</",
                                          "\""};
  std::mt19937 random(5);
  for (int round = 0; round < 6000; ++round) {
    std::string text = random() % 2 == 0 ? "<tool_call>\n<function=f>\n" : "";
    for (size_t i = random() % 14; i > 0; --i) {
      text += parts[random() % parts.size()];
    }
    const std::string whole = parsed(text);
    for (const size_t most : {1, 2, 3, 7}) {
      ASSERT_EQ(parsed(text, most), whole) << text;
    }
    Qwen35Parser parser(schemas());
    std::vector<AnswerEvent> events;
    parser.push(text, events);
    parser.finish(false, events);
    std::string arguments;
    for (const AnswerEvent& event : events) {
      arguments += event.kind == AnswerEvent::Kind::kToolArguments ? event.text : "";
      if (event.kind == AnswerEvent::Kind::kToolEnd) {
        ASSERT_TRUE(nlohmann::json::accept(arguments)) << text << "\n" << arguments;
        arguments.clear();
      }
    }
    ASSERT_EQ(arguments, "") << text;
  }
}

TEST(Qwen35Parser, TakesNothingWithANulForJson) {
  EXPECT_EQ(value_of("o", std::string("{}\0", 3)), R"("{}\u0000")");
  EXPECT_FALSE(ToolSchemas::parse(std::string_view("[]\0", 3)).ok());
}

TEST(Qwen35Parser, CutsALongNameBetweenCharacters) {
  std::string long_name = "x";
  std::string cut = "x";
  for (int i = 0; i < 200; ++i) {
    long_name += "\u00e9";
    cut += i < 127 ? "\u00e9" : "";  // 255 of 256 bytes: the next character would cross
  }
  const std::string shown = parsed(call("<parameter=" + long_name + ">v</parameter>"));
  EXPECT_EQ(shown.rfind("[f {\"" + cut + "\":\"", 0), 0u) << shown;
  EXPECT_EQ(parsed(call("", long_name)).rfind("[" + cut + " {}]", 0), 0u);
}

TEST(Qwen35Parser, NamesAboutAsLongAsAllowedAreTheSameForEverySplit) {
  for (size_t size = 254; size < 260; ++size) {
    for (const std::string& end : {std::string(">v</parameter>"), std::string("\nv"), std::string()}) {
      const std::string text = call("<parameter=" + std::string(size, 'p') + end, std::string(size, 'f'));
      const std::string whole = parsed(text);
      for (const size_t most : {1, 2, 3, 5, 7}) ASSERT_EQ(parsed(text, most), whole) << size << " " << end;
      const std::string cut = text.substr(0, text.find("ppp") + size);
      ASSERT_EQ(parsed(cut, 1), parsed(cut)) << size;
    }
  }
}

/// The arguments of a call whose text was cut, and "|" if the call has ended.
std::string cut(const std::string& text, size_t most = 1 << 20) {
  Qwen35Parser parser(schemas());
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most) {
    parser.push(std::string_view(text).substr(from, most), events);
  }
  parser.finish(true, events);
  std::string shown;
  for (const AnswerEvent& event : events) {
    shown += event.kind == AnswerEvent::Kind::kToolBegin ? event.text + " " : event.text;
    if (event.kind == AnswerEvent::Kind::kToolEnd) shown += "|";
  }
  return shown;
}

TEST(Qwen35Parser, ACutCallIsWhatWasWrittenOfIt) {
  const std::string open = "<tool_call>\n<function=f>\n<parameter=s>\na <b";
  EXPECT_EQ(cut(open), R"(f {"s":"a <b)");
  EXPECT_EQ(cut(open + "\n"), R"(f {"s":"a <b)");
  for (const char* markup : {"\n<", "\n</para", "\n</parameter"})
    EXPECT_EQ(cut(open + markup), R"(f {"s":"a <b)");
  for (const char* undecided :
       {"\n</parameter>", "\n</parameter>\n", "\n</parameter>\n<para", "\n</parameter>\n</func"}) {
    EXPECT_EQ(cut(open + undecided), R"(f {"s":"a <b)") << "a text may go on: " << undecided;
  }
  EXPECT_EQ(cut(open + "\n</parameter>\n<parameter=i>\n12"), R"(f {"s":"a <b","i":12)");
  EXPECT_EQ(cut(open + "\n</parameter>\n<parameter=o>\n{\"k\": [1, \"x"),
            R"(f {"s":"a <b","o":{"k": [1, "x)");
  EXPECT_EQ(cut(open + "\n</parameter>\n</function>"), R"(f {"s":"a <b"}|)");
  EXPECT_EQ(cut("<tool_call>\n<function=f>\n<parameter=m>\nnul"), R"(f {"m":)") << "null, or text";
  EXPECT_EQ(cut("<tool_call>\n<function=f>\n<parameter=m>\nwor"), R"(f {"m":"wor)");
  for (const char* nothing : {"<tool_call>", "<tool_call>\n<func", "<tool_call>\n<function=f"}) {
    EXPECT_EQ(cut(nothing), "") << "no markup in the content";
  }
  EXPECT_EQ(cut("<tool_call>\n<function=f>\n<param"), "f ");
  EXPECT_EQ(cut("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"hal"), R"(f {"s": "hal)");
  EXPECT_EQ(cut("<tool_call>\n{\"name\": \"f"), "");
}

TEST(Qwen35Parser, ACutCallNeverLooksComplete) {
  const std::string whole = call(
      "<parameter=s>\n{\"a\":1}\n</parameter>\n<parameter=i>\n12\n</parameter>\n"
      "<parameter=u>\nnull\n</parameter>\n<parameter=a>\n[1, 2]\n</parameter>\n");
  for (size_t size = std::string_view("<tool_call>").size(); size < whole.size(); ++size) {
    const std::string shown = cut(whole.substr(0, size));
    ASSERT_EQ(cut(whole.substr(0, size), 1), shown) << size;
    ASSERT_EQ(shown.find("<"), std::string::npos) << shown;
    if (shown.ends_with("|") || shown.empty()) continue;
    ASSERT_FALSE(nlohmann::json::accept(shown.substr(shown.find(' ') + 1))) << shown;
  }
}

TEST(Qwen35Parser, TextStaysTextWhereTheSchemaAllowsIt) {
  const auto tools = ToolSchemas::parse(R"([{"name":"f","parameters":{"properties":{
    "zip":{"type":["string","integer"],"enum":["00123"]},"open":{"type":["string","integer"]},
    "seven":{"const":"7"},"word":{"type":["string","boolean"]},"json":{"type":"string"},
    "few":{"anyOf":[{"type":"integer","maximum":9},{"type":"string"}]},"n":{"enum":[1,"1",2]},
    "only":{"enum":["1","2"]},"either":{"type":["object","string"]}}}}])");
  const auto value = [&](const char* key, const char* text) {
    return json_of_parameter(text, tools->type_of("f", key));
  };
  EXPECT_EQ(value("zip", "00123"), R"("00123")");
  EXPECT_EQ(value("open", "00123"), R"("00123")");
  EXPECT_EQ(value("open", "123"), "123");
  EXPECT_EQ(value("open", "+5"), R"("+5")");
  EXPECT_EQ(value("seven", "7"), R"("7")");
  EXPECT_EQ(value("word", "True"), R"("True")");
  EXPECT_EQ(value("word", "true"), "true");
  EXPECT_EQ(value("json", R"({"a":1})"), R"("{\"a\":1}")");
  EXPECT_EQ(value("few", "12"), R"("12")");
  EXPECT_EQ(value("few", "5"), "5");
  EXPECT_EQ(value("n", "1"), "1");
  EXPECT_EQ(value("only", "1"), R"("1")");
  EXPECT_EQ(value("either", R"({"a": 01})"), R"("{\"a\": 01}")");
}

TEST(Qwen35Parser, TextIsReadAsWhatMostAlternativesOfTheParametersTake) {
  const auto value = [](const std::string& second) {
    const auto tools = ToolSchemas::parse(
        R"([{"name":"f","parameters":{"anyOf":[{"properties":{"u":{"enum":["null","7"]}}},{"properties":)" +
        second + "}]}}]");
    const ParameterType type = tools->type_of("f", "u");
    return json_of_parameter("null", type) + " " + json_of_parameter("7", type);
  };
  EXPECT_EQ(value(R"({"path":{"type":"string"}})"), R"("null" "7")");
  EXPECT_EQ(value(R"({"u":{"type":["integer","null"]}})"), "null 7");
  EXPECT_EQ(value(R"({"u":{"type":["integer","string"]}})"), R"("null" "7")");
}

TEST(Qwen35Parser, SurvivesSchemasThatReferToThemselves) {
  EXPECT_TRUE(ToolSchemas::parse(R"([{"name":"f","parameters":{"properties":{"a":{"$ref":"#/properties/a"},
    "b":{"anyOf":[{"$ref":"#/properties/b"},{"$ref":"#/properties/b"}]}}}}])")
                  .ok());
  EXPECT_FALSE(ToolSchemas::parse("{").ok());
  EXPECT_FALSE(ToolSchemas::parse(R"([{"function":{}}])").ok());
  EXPECT_FALSE(ToolSchemas::parse(std::string(200'000, '[')).ok());
}

}  // namespace
}  // namespace ft::qwen3_5_parser_test
