#include "text/chat_format/mistral.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/chat_format/granite.h"
#include "text/chat_format/mistral_messages.h"
#include "text/chat_template.h"
#include "text/grammar_fixture.h"
#include "text/thinking.h"

namespace ft::mistral_test {
namespace {

using grammar_fixture::accepts;
using grammar_fixture::kTools;

std::shared_ptr<const Grammar> grammar_of(const ChatFormat& format, bool required, bool parallel = true,
                                          const std::string& answer_schema = "") {
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &format, rules.required = required, rules.parallel = parallel;
  rules.answer_schema = answer_schema;
  return grammar_fixture::tools(rules);
}

const std::string kRome = R"({"city": "Rome", "days": 2})";
const std::string kItem = R"({"name": "get_weather", "arguments": )" + kRome + "}";
const std::string kNow = R"({"name": "now", "arguments": {}})";

TEST(MistralFormat, ARequiredCallFollowsTheSchemas) {
  const auto grammar = grammar_of(kMistralFormat, true);
  EXPECT_TRUE(accepts(*grammar, "[TOOL_CALLS]get_weather[ARGS]" + kRome));
  EXPECT_TRUE(accepts(*grammar, "[TOOL_CALLS]get_weather[ARGS]" + kRome + "[TOOL_CALLS]now[ARGS]{}"));
  EXPECT_FALSE(accepts(*grammar, "[TOOL_CALLS]get_weather[ARGS]{}"));
  EXPECT_FALSE(accepts(*grammar, "[TOOL_CALLS]other[ARGS]{}"));
  EXPECT_FALSE(accepts(*grammar, "text"));
  EXPECT_FALSE(
      accepts(*grammar_of(kMistralFormat, true, false), "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now[ARGS]{}"));
}

TEST(MistralFormat, AListHasItsMarkAndBracketsOnce) {
  for (const auto& [format, mark] :
       {std::pair{&kMistralListFormat, "[TOOL_CALLS]["}, {&kGraniteFormat, "<|tool_call|>["}}) {
    const auto grammar = grammar_of(*format, true);
    EXPECT_TRUE(accepts(*grammar, mark + kItem + "]")) << mark;
    EXPECT_TRUE(accepts(*grammar, mark + kItem + ", " + kNow + "]")) << mark;
    EXPECT_FALSE(accepts(*grammar, mark + kItem)) << mark;
    EXPECT_FALSE(accepts(*grammar, mark + kItem + "]" + mark + kNow + "]")) << mark;
    EXPECT_FALSE(accepts(*grammar, std::string(mark) + R"({"name": "get_weather", "arguments": {}}])"))
        << mark;
    EXPECT_FALSE(accepts(*grammar_of(*format, true, false), mark + kNow + ", " + kNow + "]")) << mark;
    const auto answer =
        grammar_of(*format, false, true, R"({"type": "object", "additionalProperties": false})");
    EXPECT_TRUE(accepts(*answer, "{}")) << mark;
    EXPECT_TRUE(accepts(*answer, mark + kNow + "]")) << mark;
    EXPECT_FALSE(accepts(*answer, "text")) << mark;
  }
}

constexpr const char* kTags[] = {"[TOOL_CALLS]", "[ARGS]", "<|tool_call|>"};

TEST(MistralFormat, TagsAreTheVocabulariesOwnTokensAndTextMayBeBeforeThem) {
  const Tokenizer own = grammar_fixture::tokenizer_with(kTags);
  const GrammarCompiler compiler(own, grammar_fixture::end_tokens());
  const auto allowed = [&](const ChatFormat& format, const std::string& text, size_t spelled_tag) {
    ToolCallRules rules;
    rules.tools_json = kTools, rules.format = &format;
    GrammarMatcher matcher = std::move((*compiler.tool_calls(rules))->start()).value();
    std::vector<uint32_t> mask(static_cast<size_t>(own.vocab_size()) / 32 + 1);
    for (const int32_t id : grammar_fixture::spelled(own, kTags, text, spelled_tag)) {
      EXPECT_TRUE(matcher.mask(mask).ok());
      if (!grammar_fixture::allows(mask, id) || !matcher.consume({&id, 1}).ok()) return false;
    }
    return matcher.accepting();
  };
  constexpr size_t kNone = 9;
  const std::string named = "text [TOOL_CALLS]now[ARGS]{}", two = "[TOOL_CALLS]now[ARGS]{}";
  EXPECT_TRUE(allowed(kMistralFormat, named + two, kNone));
  for (const size_t tag : {0, 1, 2, 3}) EXPECT_FALSE(allowed(kMistralFormat, named + two, tag)) << tag;
  for (const auto& [format, mark] :
       {std::pair{&kMistralListFormat, "text [TOOL_CALLS]["}, {&kGraniteFormat, "text <|tool_call|>["}}) {
    EXPECT_TRUE(allowed(*format, mark + kItem + ", " + kNow + "]", kNone)) << mark;
    EXPECT_FALSE(allowed(*format, mark + kNow + "]", 0)) << mark;
    EXPECT_FALSE(allowed(*format, mark + kNow + ", ]", kNone)) << mark;
  }
}

TEST(MistralFormat, TheTemplateChoosesTheForm) {
  constexpr std::string_view kNames[] = {"mistral with reasoning",
                                         "mistral",
                                         "mistral with a list of calls",
                                         "granite with reasoning",
                                         "granite",
                                         "hermes",
                                         "plain"};
  const auto chosen = [&](std::string_view source) { return choose_chat_format(kNames, source).name; };
  EXPECT_EQ(chosen("[TOOL_CALLS]{{ name }}[ARGS]"), "mistral");
  EXPECT_EQ(chosen("[THINK]{{ x }}[/THINK][TOOL_CALLS]{{ name }}[ARGS]"), "mistral with reasoning");
  EXPECT_EQ(chosen("[TOOL_CALLS][{{ calls }}]"), "mistral with a list of calls");
  EXPECT_EQ(chosen("respond with <|tool_call|> and a list"), "granite");
  EXPECT_EQ(chosen("{% if thinking %}<think></think><response></response>{% endif %}<|tool_call|>"),
            "granite with reasoning");
  EXPECT_EQ(chosen("<tool_call>"), "hermes") << "Granite 4";
  EXPECT_EQ(chosen("[INST]"), "plain");
}

TEST(MistralFormat, ReasoningIsBetweenItsTags) {
  ThinkingSplitter splitter(kMistralThinkingFormat, {false, true});
  ThinkingSplitter::Piece first = splitter.push("[THINK]why[/THINK]yes");
  const ThinkingSplitter::Piece last = splitter.finish();
  EXPECT_EQ(first.reasoning + last.reasoning + "|" + first.content + last.content, "why|yes");
}

/// "reasoning|content", pushed in pieces of up to `most` bytes.
std::string granite_answer(const std::string& text, size_t most) {
  ThinkingSplitter splitter(kGraniteThinkingFormat, {false, true});
  ThinkingSplitter::Piece all;
  const auto take = [&all](const ThinkingSplitter::Piece& piece) {
    all.reasoning += piece.reasoning, all.content += piece.content;
  };
  for (size_t from = 0; from < text.size(); from += most)
    take(splitter.push(std::string_view(text).substr(from, most)));
  take(splitter.finish());
  return all.reasoning + "|" + all.content;
}

TEST(GraniteFormat, ReasoningAndResponseLoseTheirTags) {
  for (const size_t most : {1, 2, 3, 7, 99}) {
    EXPECT_EQ(granite_answer("<think>why</think>\n<response>yes</response>", most), "why|yes");
    EXPECT_EQ(granite_answer("<think>why</think><response>\na <b> </resp\n</response>\n", most),
              "why|a <b> </resp\n\n");
    EXPECT_EQ(granite_answer("<think>why</think>\n\nyes</response>", most), "why|yes</response>")
        << "no tag before it";
    EXPECT_EQ(granite_answer("<think>why</think>\n<respond", most), "why|<respond");
    EXPECT_EQ(granite_answer("<think>why</think>\n<response>cut </re", most), "why|cut </re");
    EXPECT_EQ(granite_answer("<think>hm<|tool_call|>[]", most), "hm|<|tool_call|>[]");
    EXPECT_EQ(granite_answer("<response>yes</response>", most), "|<response>yes</response>");
  }
}

TEST(GraniteFormat, ThinkingIsTheVariableOfItsTemplate) {
  const std::string show = "{# <|tool_call|> <think> <response> #}{{ thinking }}";
  const auto rendered = [&](const RenderOptions& options) {
    const auto made = ChatTemplate::from_source(show, "");
    const auto text = made.ok() ? made->render("[]", "", options) : Result<std::string>(made.error());
    return text.ok() ? *text : text.error().message;
  };
  RenderOptions options;
  EXPECT_EQ(rendered(options), "");
  options.enable_thinking = true;
  EXPECT_EQ(rendered(options), "True");
  options.extra_json = R"({"thinking": false})";
  EXPECT_EQ(rendered(options), "False");
}

TEST(GraniteFormat, CallsAreContentWhereTheTemplateShowsNothingElse) {
  const std::string show = "{% for m in messages %}[{{ m.role }}:{{ m['content'] }}]{% endfor %}";
  const std::string messages = R"([{"role":"user","content":"a"},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"1","function":{"name":"f","arguments":"{\"b\":1}"}},
        {"id":"2","function":{"name":"g","arguments":{}}}]},{"role":"tool","content":"r"}])";
  const auto rendered = [&](const std::string& source) {
    return *ChatTemplate::from_source(source, "")->render(messages, "", {});
  };
  EXPECT_EQ(rendered("{# <|tool_call|> #}" + show),
            R"([user:a][assistant:<|tool_call|>[{"name": "f", "arguments": {"b":1}}, )"
            R"({"name": "g", "arguments": {}}]][tool:r])");
  EXPECT_EQ(rendered("{# <|tool_call|> tool_calls #}" + show), "[user:a][assistant:][tool:r]");
}

TEST(MistralMessages, IdsHaveNineLettersAndNeighboursJoin) {
  const std::string show =
      "{# [TOOL_CALLS] #}{% for m in messages %}[{{ m.role }}:{{ m.content }}"
      "{% for c in m.tool_calls or [] %} {{ c.id }}{% endfor %}"
      "{{ m.tool_call_id or '' }}]{% endfor %}";
  const auto chat = ChatTemplate::from_source(show, "");
  ASSERT_TRUE(chat.ok());
  const std::string text = *chat->render(
      R"([{"role":"user","content":"a"},{"role":"user","content":"b"},
      {"role":"assistant","content":"","tool_calls":[{"id":"call_12345678","function":{"name":"f"}},
        {"id":"abcDEF123","function":{"name":"f"}}]},
      {"role":"tool","content":"r","tool_call_id":"call_12345678"},
      {"role":"tool","content":"s","tool_call_id":"abcDEF123"},
      {"role":"assistant","content":"c","tool_calls":[]},{"role":"assistant","content":"d"},
      {"role":"user","content":[{"type":"text","text":"e"}]},{"role":"user","content":"f"}])",
      "", {});
  const size_t at = text.find("[assistant: ") + 12;
  const std::string id = text.substr(at, 9);
  EXPECT_EQ(id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
            std::string::npos);
  EXPECT_EQ(text, "[user:a\n\nb][assistant: " + id + " abcDEF123][tool:r" + id +
                      "][tool:sabcDEF123][assistant:c\n\nd][user:[{'type': 'text', 'text': 'e'}]][user:f]");
}

}  // namespace
}  // namespace ft::mistral_test
