#include "text/chat_format/glm4_moe.h"

#include <gtest/gtest.h>

#include "text/answer.h"
#include "text/grammar.h"
#include "text/grammar_fixture.h"
#include "text/thinking.h"
#include "text/tool_grammar.h"

namespace ft::glm4_moe_test {
namespace {

const std::string kTools =
    R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
  "properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]}},
  "required":["city"]}}},
  {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = std::move(Tokenizer::load("tests/golden/gemma4/odd")).value();
  return kTokenizer;
}

constexpr const char* kTags[] = {"<tool_call>", "</tool_call>", "<arg_key>",
                                 "</arg_key>",  "<arg_value>",  "</arg_value>"};

/// It has every tag as one token, as GLM's own does.
const Tokenizer& tokenizer_with_tags() {
  static const Tokenizer kTokenizer = grammar_fixture::tokenizer_with(kTags);
  return kTokenizer;
}
constexpr int32_t kEnd = 50, kEndWithTags = 8180;

std::shared_ptr<const Grammar> grammar_of(bool required, bool with_tags = false,
                                          const TextFormat* custom = nullptr) {
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &kGlm4MoeFormat, rules.required = required;
  if (custom != nullptr) rules.text_formats["now"] = *custom;
  const GrammarCompiler compiler(
      with_tags ? tokenizer_with_tags() : tokenizer(),
      with_tags ? std::vector<int32_t>{kEndWithTags} : std::vector<int32_t>{1, 106, kEnd});
  Result<std::shared_ptr<const Grammar>> grammar = compiler.tool_calls(rules);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message;
  return *grammar;
}

/// True if the tokens are allowed in sequence, followed by the end.
bool accepts_ids(const Grammar& grammar, const std::vector<int32_t>& ids, bool with_tags) {
  const Tokenizer& own = with_tags ? tokenizer_with_tags() : tokenizer();
  GrammarMatcher matcher = std::move(grammar.start()).value();
  std::vector<uint32_t> mask(static_cast<size_t>(own.vocab_size()) / 32 + 1);
  const auto allows = [&](int32_t id) {
    EXPECT_TRUE(matcher.mask(mask).ok());
    return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
  };
  for (const int32_t id : ids) {
    if (!allows(id) || !matcher.consume({&id, 1}).ok()) return false;
  }
  return allows(with_tags ? kEndWithTags : kEnd);
}

bool accepts(const Grammar& grammar, const std::string& text, bool with_tags = false) {
  return accepts_ids(grammar, *(with_tags ? tokenizer_with_tags() : tokenizer()).encode(text, false),
                     with_tags);
}

/// The tokens of `text`, with the tag at one place spelled by other tokens.
std::vector<int32_t> spelled(const std::string& text, size_t which) {
  return grammar_fixture::spelled(tokenizer_with_tags(), kTags, text, which);
}

std::string argument(const std::string& key, const std::string& value, const char* line) {
  return "<arg_key>" + key + "</arg_key>" + line + "<arg_value>" + value + "</arg_value>" + line;
}

TEST(Glm4MoeFormat, ARequiredCallFollowsTheSchemasWithAndWithoutLineEnds) {
  const std::shared_ptr<const Grammar> shared = grammar_of(true);
  const Grammar& grammar = *shared;
  for (const char* line : {"\n", ""}) {
    const std::string head = std::string("<tool_call>get_weather") + line;
    const std::string city = argument("city", "a < b\n</p>", line);
    EXPECT_TRUE(accepts(grammar, head + city + "</tool_call>")) << line;
    EXPECT_TRUE(accepts(
        grammar, head + city + argument("days", "3", line) + argument("unit", "F", line) + "</tool_call>"));
    EXPECT_FALSE(accepts(grammar, head + "</tool_call>")) << "the city is required";
    EXPECT_FALSE(accepts(grammar, head + city + argument("days", "three", line) + "</tool_call>"));
    EXPECT_FALSE(accepts(grammar, head + city + argument("unit", "K", line) + "</tool_call>"));
    EXPECT_TRUE(accepts(grammar, std::string("<tool_call>now") + line + "</tool_call>"));
  }
  EXPECT_FALSE(accepts(grammar, "<tool_call>other\n</tool_call>"));
  EXPECT_FALSE(accepts(grammar, "text"));
}

TEST(Glm4MoeFormat, TextMayStandBeforeAndWithoutACall) {
  const std::shared_ptr<const Grammar> shared = grammar_of(false, true);
  EXPECT_TRUE(accepts(*shared, "text", true));
  EXPECT_TRUE(accepts(*shared, "text\n<tool_call>now\n</tool_call>", true));
  EXPECT_FALSE(accepts(*shared, "text\n<tool_call>other", true));
}

TEST(Glm4MoeFormat, EveryTagIsTheVocabulariesOwnToken) {
  const std::shared_ptr<const Grammar> grammar = grammar_of(true, true);
  for (const char* line : {"\n", ""}) {
    const std::string call = std::string("<tool_call>get_weather") + line + argument("city", "a < b", line) +
                             argument("days", "3", line) + argument("unit", "F", line) + "</tool_call>";
    constexpr size_t kTagsOfCall = 14;
    EXPECT_TRUE(accepts_ids(*grammar, spelled(call, kTagsOfCall), true)) << "all tags are tokens";
    for (size_t i = 0; i < kTagsOfCall; ++i)
      EXPECT_FALSE(accepts_ids(*grammar, spelled(call, i), true)) << "tag " << i << " of " << call;
    EXPECT_FALSE(accepts(*grammar, std::string("<tool_call>get_weather") + line + "</tool_call>", true));
    EXPECT_TRUE(accepts(*grammar, std::string("<tool_call>now") + line + "</tool_call>", true));
  }
  EXPECT_TRUE(
      accepts(*grammar, "<tool_call>get_weather\n" + argument("city", "", "\n") + "</tool_call>", true))
      << "an empty text";
}

TEST(Glm4MoeFormat, AValueWithConditionsEndsAtTheToken) {
  ToolCallRules rules;
  rules.format = &kGlm4MoeFormat, rules.required = true;
  rules.tools_json = R"([{"function":{"name":"f","parameters":{"properties":{
      "code":{"type":"string","pattern":"^[0-9]{2}$"},"pick":{"enum":["a","ab",1,null]}}}}}])";
  const GrammarCompiler compiler(tokenizer_with_tags(), {kEndWithTags});
  const auto grammar = *compiler.tool_calls(rules);
  const auto call = [](const std::string& arguments) {
    return "<tool_call>f\n" + arguments + "</tool_call>";
  };
  EXPECT_TRUE(accepts(*grammar, call(argument("code", "07", "\n")), true));
  EXPECT_FALSE(accepts(*grammar, call(argument("code", "7", "\n")), true));
  for (const char* pick : {"a", "ab", "1", "null"})
    EXPECT_TRUE(accepts(*grammar, call(argument("pick", pick, "")), true)) << pick;
  EXPECT_FALSE(accepts(*grammar, call(argument("pick", "b", "")), true));
}

TEST(Glm4MoeFormat, TheTextOfACustomToolEndsAtTheTag) {
  const TextFormat format{"regex", "[a-z]+"};
  for (const bool with_tags : {false, true}) {
    const auto grammar = grammar_of(true, with_tags, &format);
    const auto call = [](const std::string& text) {
      return "<tool_call>now\n" + argument("input", text, "\n") + "</tool_call>";
    };
    EXPECT_TRUE(accepts(*grammar, call("abc"), with_tags)) << with_tags;
    EXPECT_FALSE(accepts(*grammar, call("ab1"), with_tags)) << with_tags;
  }
}

TEST(Glm4MoeFormat, ReasoningBeginsInTheAnswerOrInThePrompt) {
  const auto shown = [](const std::string& text, bool starts_in_reasoning) {
    ThinkingSplitter splitter(kGlm4MoeFormat, {starts_in_reasoning, true});
    ThinkingSplitter::Piece first = splitter.push(text);
    const ThinkingSplitter::Piece last = splitter.finish();
    return first.reasoning + last.reasoning + "|" + first.content + last.content;
  };
  EXPECT_EQ(shown("\n<think>why</think>\nyes", false), "why|yes") << "4.5 and 4.6";
  EXPECT_EQ(shown("why</think>yes", true), "why|yes") << "4.7";
  EXPECT_EQ(shown("yes", false), "|yes");
  EXPECT_TRUE(prompt_opens_thinking("<|assistant|><think>", kGlm4MoeFormat.reasoning));
  EXPECT_TRUE(prompt_closes_thinking("<|assistant|>\n<think></think>", kGlm4MoeFormat.reasoning));
}

TEST(Glm4MoeFormat, ItsTemplateIsKnownByItsTags) {
  const std::string source = "<tool_call>{{ name }}\n<arg_key>{{ k }}</arg_key>\n<arg_value>";
  constexpr std::string_view kNames[] = {"glm4_moe", "hermes", "plain"};
  EXPECT_EQ(choose_chat_format(kNames, source).name, "glm4_moe");
  EXPECT_EQ(choose_chat_format(kNames, "{{ messages }}").name, "plain");
}

}  // namespace
}  // namespace ft::glm4_moe_test
