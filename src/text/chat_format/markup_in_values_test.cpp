// A value may hold the markup of its own format. In every format: what the grammar allows to be written is
// what the parser reads, whole, in pieces, and up to a cut.
#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/chat_format/gemma4_parser.h"
#include "text/chat_format/glm4_moe.h"
#include "text/chat_format/granite.h"
#include "text/chat_format/harmony.h"
#include "text/chat_format/hermes.h"
#include "text/chat_format/llama3_json.h"
#include "text/chat_format/mistral.h"
#include "text/chat_format/qwen3_5.h"
#include "text/grammar_fixture.h"

namespace ft::markup_in_values_test {
namespace {

using namespace grammar_fixture;
using Json = nlohmann::ordered_json;

constexpr const char* kListTools =
    R"([{"function": {"name": "f", "parameters": {"type": "object", "properties": {
    "list": {"type": "array"}, "n": {"type": "integer"}}, "required": ["list", "n"]}}}])";
constexpr const char* kTextTools =
    R"([{"function": {"name": "f", "parameters": {"type": "object", "properties": {
    "text": {"type": "string"}, "n": {"type": "integer"}}, "required": ["text", "n"]}}}])";

struct Read {
  int calls = 0;
  bool ended = true;
  std::string arguments, content;
};

Read read(const ChatFormat& format, const char* tools, std::string_view text, size_t most, bool cut = false) {
  const auto parser = format.calls.parser(std::move(ToolSchemas::parse(tools)).value());
  std::vector<AnswerEvent> events;
  for (size_t from = 0; from < text.size(); from += most) parser->push(text.substr(from, most), events);
  parser->finish(cut, events);
  Read seen;
  for (const AnswerEvent& event : events) {
    if (event.kind == AnswerEvent::Kind::kToolBegin) ++seen.calls, seen.ended = false;
    if (event.kind == AnswerEvent::Kind::kToolEnd) seen.ended = true;
    if (event.kind == AnswerEvent::Kind::kToolArguments) seen.arguments += event.text;
    if (event.kind == AnswerEvent::Kind::kText) seen.content += event.text;
  }
  return seen;
}

/// A call of f(list, n: 1) with a value of JSON, as a model writes it.
std::string written(const ChatFormat& format, const std::string& list) {
  if (&format == &kQwen35Format) {
    return fmt::format(
        "<tool_call>\n<function=f>\n<parameter=list>\n{}\n</parameter>\n<parameter=n>\n1\n"
        "</parameter>\n</function>\n</tool_call>",
        list);
  }
  if (&format == &kGlm4MoeFormat) {
    return fmt::format(
        "<tool_call>f\n<arg_key>list</arg_key>\n<arg_value>{}</arg_value>\n<arg_key>n</arg_key>\n"
        "<arg_value>1</arg_value>\n</tool_call>",
        list);
  }
  const std::string all = fmt::format(R"({{"list": {}, "n": 1}})", list);
  const std::string call = fmt::format(R"({{"name": "f", "arguments": {}}})", all);
  if (&format == &kHermesFormat) return "<tool_call>\n" + call + "\n</tool_call>";
  if (&format == &kGraniteFormat) return "<|tool_call|>[" + call + "]";
  if (&format == &kMistralListFormat) return "[TOOL_CALLS][" + call + "]";
  if (&format == &kMistralFormat) return "[TOOL_CALLS]f[ARGS]" + all;
  if (&format == &kLlama3JsonFormat) return fmt::format(R"({{"name": "f", "parameters": {}}})", all);
  return "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>" + all;
}

/// Its own ends of values and calls, with the beginning of what may follow them.
std::vector<std::string> markup() {
  std::string many;
  for (int i = 0; i < 40; ++i) many += "</arg_value>x</tool_call>x";
  return {many,
          "</parameter></function></tool_call>",
          "</parameter> <parameter=n>",
          "</arg_value><arg_key>n</arg_key><arg_value>2</arg_value></tool_call>",
          "</arg_value></tool_call><tool_call>f",
          "</tool_call>",
          R"(\"}}</tool_call>)",
          "<tool_call>",
          "<|call|>",
          "<|end|><|start|>assistant<|channel|>final<|message|>",
          "[TOOL_CALLS]f[ARGS]{",
          "<|tool_call|>[",
          "</think>",
          R"(\\)"};
}

TEST(MarkupInValues, AStringOfJsonHoldsIt) {
  for (const ChatFormat* format :
       {&kQwen35Format, &kGlm4MoeFormat, &kHermesFormat, &kHarmonyFormat, &kLlama3JsonFormat, &kGraniteFormat,
        &kMistralFormat, &kMistralListFormat}) {
    ToolCallRules rules;
    rules.format = format, rules.tools_json = kListTools, rules.required = true;
    const auto grammar = tools(rules);
    for (const std::string& mark : markup()) {
      const std::string list = fmt::format(R"([{{"{0}": "{0}"}}, ["a{0}"]])", mark);
      const std::string text = written(*format, list);
      const Json all = Json{{"list", Json::parse(list)}, {"n", 1}};
      const auto added = [](int32_t id) { return tokenizer().is_added(id); };
      EXPECT_TRUE(std::ranges::any_of(ids_of(mark), added) || accepts(*grammar, text))
          << format->name << " " << text;
      for (const size_t most : {size_t{1}, size_t{3}, size_t{50}, text.size()}) {
        const Read seen = read(*format, kListTools, text, most);
        EXPECT_EQ(seen.calls, 1) << format->name << " " << text;
        EXPECT_TRUE(seen.ended && seen.content.empty()) << format->name << " " << text;
        EXPECT_EQ(Json::parse(seen.arguments, nullptr, false), all) << format->name << " " << text;
      }
    }
  }
}

TEST(MarkupInValues, ACutCallIsItsBeginning) {
  for (const ChatFormat* format : {&kQwen35Format, &kGlm4MoeFormat, &kHermesFormat, &kHarmonyFormat}) {
    for (const std::string& mark : markup()) {
      if (mark.size() > 100) continue;
      const std::string text = written(*format, fmt::format(R"([{{"{0}": "{0}"}}, ["a{0}"]])", mark));
      const std::string whole = read(*format, kListTools, text, text.size()).arguments;
      for (size_t size = 0; size < text.size(); ++size) {
        const Read seen = read(*format, kListTools, text.substr(0, size), 7, true);
        EXPECT_TRUE(whole.starts_with(seen.arguments)) << format->name << ": " << text.substr(0, size);
      }
    }
  }
}

TEST(MarkupInValues, AStringThatAModelLeavesOpenEndsWithItsParameter) {
  const auto arguments = [](const ChatFormat& format, const std::string& list, size_t most) {
    return read(format, kListTools, written(format, list), most).arguments;
  };
  for (const size_t most : {size_t{1}, size_t{4096}}) {
    for (const ChatFormat* format : {&kQwen35Format, &kGlm4MoeFormat}) {
      EXPECT_EQ(arguments(*format, R"(["a)", most), R"({"list":"[\"a","n":1})");
      EXPECT_EQ(arguments(*format, R"(["a", "b)", most), R"({"list":"[\"a\", \"b","n":1})");
    }
  }
  std::string many = "<tool_call>f";
  for (int i = 0; i < 2000; ++i) many += "<arg_key>k</arg_key><arg_value>[\"</arg_value>\", \"";
  EXPECT_EQ(read(kGlm4MoeFormat, kListTools, many, 1000).calls, 1) << "a bounded search";
}

/// A grammar ends a text at the first </parameter>. A model that forgets a required parameter continues with
/// </function>, which may not come yet: it would otherwise write odd tags into the text.
TEST(MarkupInValues, ATextOfQwenHoldsTheEndOfAParameterUnlessTheCallGoesOn) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTextTools, rules.required = true;
  const auto grammar = tools(rules);
  for (const std::string_view text :
       {"", "a", "\n", "</parameter>", "a</parameter>b", "<parameter name=\"a\">\n</parameter>\n<b>\n",
        "</parameter>\n</parameter>\n", "</parameter>\n<parameters>\n</functions>", "</parameter> ",
        "</parameter></parameter>\n</par"}) {
    const std::string call = fmt::format(
        "<tool_call>\n<function=f>\n<parameter=text>\n{}\n</parameter>\n<parameter=n>\n1\n</parameter>\n"
        "</function>\n</tool_call>",
        text);
    EXPECT_EQ(accepts(*grammar, call), text.find("</parameter>") == std::string_view::npos) << call;
    for (const size_t most : {size_t{1}, call.size()})
      EXPECT_EQ(Json::parse(read(kQwen35Format, kTextTools, call, most).arguments),
                (Json{{"text", text}, {"n", 1}}));
  }
}

TEST(MarkupInValues, AKeyOfGemmaInItsQuotesHoldsTheEndOfACall) {
  const std::string text =
      "<|tool_call>call:f{<|\"|>a<tool_call|>b<|\"|>:<|\"|>x<tool_call|>y<|\"|>}<tool_call|>";
  for (size_t most = 1; most <= text.size(); ++most) {
    Gemma4Parser parser(std::move(ToolSchemas::parse(kTextTools)).value());
    std::vector<AnswerEvent> events;
    for (size_t from = 0; from < text.size(); from += most) parser.push(text.substr(from, most), events);
    parser.finish(false, events);
    std::string arguments;
    for (const AnswerEvent& event : events)
      arguments += event.kind == AnswerEvent::Kind::kToolArguments ? event.text : "";
    EXPECT_EQ(arguments, R"({"a<tool_call|>b":"x<tool_call|>y"})");
  }
}

}  // namespace
}  // namespace ft::markup_in_values_test
