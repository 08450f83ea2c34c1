#include "text/chat_format/harmony.h"

#include <gtest/gtest.h>

#include "text/answer.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/reasoning_effort.h"
#include "text/thinking.h"
#include "text/thinking_marks.h"
#include "text/tool_grammar.h"

namespace ft::harmony_test {
namespace {

constexpr const char* kModel = "tests/golden/gpt_oss/mxfp4";  // with the control tokens of harmony
constexpr int32_t kReturn = 2, kCall = 7, kChannel = 5, kEnd = 9;
const std::string kTools =
    R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
  "properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}},
  {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";
const std::string kFinal = "<|start|>assistant<|channel|>final<|message|>";

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = std::move(Tokenizer::load(kModel)).value();
  return kTokenizer;
}
const ChatTemplate& chat_template() {
  static const ChatTemplate kTemplate = std::move(ChatTemplate::load(kModel)).value();
  return kTemplate;
}

std::string rendered(const std::string& messages, const RenderOptions& options = {},
                     const std::string& tools = "") {
  const auto text = chat_template().render(messages, tools, options);
  if (!text.ok()) return "refused: " + text.error().message;
  const size_t user = text->find("<|start|>user");
  return user == std::string::npos ? *text : text->substr(user);
}

TEST(HarmonyFormat, IsKnownByItsTemplate) {
  EXPECT_TRUE(is_harmony_template(chat_template().source()));
  EXPECT_FALSE(is_harmony_template("<|im_start|>{{ role }}<|im_end|>"));
  const std::string_view names[] = {"harmony", "plain"};
  EXPECT_EQ(&choose_chat_format(names, chat_template().source()), &kHarmonyFormat);
  EXPECT_EQ(&choose_chat_format(names, ""), &kPlainFormat);
  EXPECT_EQ(effort_word(chat_template().source(), "xhigh"), "high");
  EXPECT_EQ(effort_word(chat_template().source(), "minimal"), "low");
}

TEST(HarmonyMessages, ReasoningAndCallsAreAsTheTemplateWantsThem) {
  EXPECT_EQ(rendered(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":"c","reasoning_content":"gone","tool_calls":null},
      {"role":"user","content":"d"}])"),
            "<|start|>user<|message|>ab<|end|>" + kFinal +
                "c<|end|><|start|>user<|message|>d<|end|><|start|>assistant");
  EXPECT_EQ(rendered(R"([{"role":"user","content":"a"},
      {"role":"assistant","content":null,"reasoning":"why","tool_calls":[
        {"id":"1","function":{"name":"f","arguments":"{\"x\": 1}"}},
        {"id":"2","function":{"name":"g","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"2","content":"two"},
      {"role":"tool","tool_call_id":"1","content":"one"}])"),
            "<|start|>user<|message|>a<|end|>"
            "<|start|>assistant<|channel|>analysis<|message|>why<|end|>"
            "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{\"x\": 1}<|call|>"
            "<|start|>functions.f to=assistant<|channel|>commentary<|message|>\"one\"<|end|>"
            "<|start|>assistant to=functions.g<|channel|>commentary json<|message|>{}<|call|>"
            "<|start|>functions.g to=assistant<|channel|>commentary<|message|>\"two\"<|end|>"
            "<|start|>assistant")
      << "the template renders one call of a message and names results by the call before";
  EXPECT_NE(rendered(R"([{"role":"user","content":"a"},{"role":"assistant","content":"Let me see.",
      "reasoning_content":"why","tool_calls":[{"function":{"name":"f","arguments":{}}}]}])")
                .find("<|message|>why\n\nLet me see.<|end|>"),
            std::string::npos)
      << "the template refuses text and reasoning together with a call";
}

TEST(HarmonyMessages, AToolNeedsNoDescription) {
  const auto with_tool = [](const std::string& function) {
    const auto text = chat_template().render(R"([{"role":"user","content":"a"}])",
                                             R"([{"type":"function","function":)" + function + "}]", {});
    return text.ok() ? *text : text.error().message;
  };
  const std::string named = with_tool(R"({"name":"f","description":"","parameters":{}})");
  EXPECT_NE(named.find("type f = "), std::string::npos) << named;
  EXPECT_EQ(with_tool(R"({"name":"f","parameters":{}})"), named);
  EXPECT_EQ(with_tool(R"({"name":"f","description":null,"parameters":{}})"), named);
}

TEST(HarmonyMessages, WithoutThinkingTheEffortIsLow) {
  const auto effort = [](const RenderOptions& options) {
    const std::string text = *chat_template().render(R"([{"role":"user","content":"a"}])", "", options);
    const size_t at = text.find("Reasoning: ") + 11;
    return text.substr(at, text.find('\n', at) - at);
  };
  RenderOptions options;
  EXPECT_EQ(effort(options), "medium");
  options.enable_thinking = false;
  EXPECT_EQ(effort(options), "low");
  options.extra_json = R"({"reasoning_effort":"high"})";
  EXPECT_EQ(effort(options), "high");
}

/// The kinds and texts of an answer's events, token by token.
std::string answered(const std::string& text, bool parse_tools) {
  AnswerOptions options;
  options.parse_tools = parse_tools;
  if (parse_tools) options.tools_json = kTools;
  auto answer = Answer::create(tokenizer(), kHarmonyFormat, options);
  std::vector<AnswerEvent> all;
  const std::vector<int32_t> ids = *tokenizer().encode(text, false);
  for (const int32_t id : ids) {
    for (AnswerEvent& event : answer->push(id)) all.push_back(std::move(event));
  }
  for (AnswerEvent& event : answer->finish(false)) all.push_back(std::move(event));
  std::string out;
  std::optional<AnswerEvent::Kind> kind;
  for (const AnswerEvent& event : all) {
    if (kind != event.kind) out += "ptCRBAE"[static_cast<size_t>(event.kind)] + std::string(":");
    kind = event.kind;
    out += event.text;
  }
  return out;
}

TEST(HarmonyFormat, AnAnswerIsReadWithAndWithoutTools) {
  const std::string thought = "<|channel|>analysis<|message|>hm<|end|>";
  for (const bool tools : {false, true})
    EXPECT_EQ(answered(thought + kFinal + "the end<|return|>", tools), "R:hmC:the end");
  const std::string call =
      "<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}";
  EXPECT_EQ(answered(thought + call, true), "R:hmB:nowA:{}E:");
  EXPECT_EQ(answered(thought + call + "<|call|>", false), "R:hm\n\n{}") << "nobody can call";
}

TEST(HarmonyFormat, ThePromptAndTheMarksFollowTheFormat) {
  const ReasoningTags& tags = kHarmonyFormat.reasoning;
  EXPECT_FALSE(prompt_opens_thinking("<|start|>assistant", tags));
  EXPECT_FALSE(prompt_closes_thinking("<|start|>assistant", tags));
  EXPECT_TRUE(prompt_opens_thinking("<|start|>assistant<|channel|>analysis<|message|>", tags));
  EXPECT_TRUE(prompt_closes_thinking(kFinal, tags));
  const std::vector<int32_t> ends = {kReturn, 0, kCall};
  const ThinkingMarks marks(tokenizer(), ends, kHarmonyFormat);
  EXPECT_EQ(marks.open(), kChannel);
  EXPECT_EQ(marks.close(), std::vector<int32_t>{kEnd});
  EXPECT_EQ(marks.gap(), *tokenizer().encode(kFinal, false));
  EXPECT_EQ(marks.opening().front(), kChannel);
}

std::shared_ptr<const Grammar> grammar_of(bool required, const std::string& answer_schema = "") {
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &kHarmonyFormat, rules.required = required;
  rules.answer_schema = answer_schema;
  const GrammarCompiler compiler(tokenizer(), {kReturn, 0, kCall});
  Result<std::shared_ptr<const Grammar>> grammar = compiler.tool_calls(rules);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message;
  return *grammar;
}

/// True if the tokens of `text` are allowed in sequence, followed by the end.
bool accepts(const Grammar& grammar, const std::string& text) {
  GrammarMatcher matcher = std::move(grammar.start()).value();
  std::vector<uint32_t> mask(static_cast<size_t>(tokenizer().vocab_size()) / 32 + 1);
  const auto allows = [&](int32_t id) {
    EXPECT_TRUE(matcher.mask(mask).ok());
    return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
  };
  const std::vector<int32_t> ids = *tokenizer().encode(text, false);
  for (const int32_t id : ids) {
    if (!allows(id) || !matcher.consume({&id, 1}).ok()) return false;
  }
  return allows(kCall);
}

std::string call_of(const std::string& name, const std::string& arguments) {
  return "<|start|>assistant<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" +
         arguments;
}

TEST(HarmonyFormat, ARequiredCallFollowsTheSchemas) {
  const std::shared_ptr<const Grammar> shared = grammar_of(true);
  const Grammar& grammar = *shared;
  EXPECT_TRUE(grammar.has_headers());
  EXPECT_TRUE(accepts(grammar, call_of("get_weather", R"({"city": "Oslo", "days": 2})")));
  EXPECT_TRUE(accepts(grammar, call_of("now", "{}")));
  EXPECT_FALSE(accepts(grammar, call_of("get_weather", R"({"days": 2})")));
  EXPECT_FALSE(accepts(grammar, call_of("other", "{}")));
  EXPECT_FALSE(accepts(grammar, kFinal + "text")) << "a call is required";
  EXPECT_FALSE(accepts(grammar, "{}"));
}

TEST(HarmonyFormat, EveryControlTokenIsTheVocabulariesOwn) {
  const std::shared_ptr<const Grammar> required = grammar_of(true), any = grammar_of(false);
  for (const auto& [grammar, text] :
       {std::pair{required, call_of("get_weather", R"({"city": "Oslo"})")}, {any, kFinal + "text"}}) {
    const std::vector<int32_t> ids = *tokenizer().encode(text, false);
    size_t controls = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!tokenizer().is_added(ids[i])) continue;
      ++controls;
      // The same answer up to here, with the first character of the token's text in its place.
      GrammarMatcher matcher = std::move(grammar->start()).value();
      ASSERT_TRUE(matcher.consume(std::span(ids).first(i)).ok());
      std::vector<uint32_t> mask(static_cast<size_t>(tokenizer().vocab_size()) / 32 + 1);
      ASSERT_TRUE(matcher.mask(mask).ok());
      const auto allows = [&](int32_t id) {
        return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
      };
      EXPECT_TRUE(allows(ids[i]));
      EXPECT_FALSE(allows(tokenizer().encode("<", false)->front())) << "token " << i << " of " << text;
    }
    EXPECT_EQ(controls, grammar == required ? 4U : 3U);
  }
}

TEST(HarmonyFormat, AnAnswerIsTextOrACall) {
  const std::shared_ptr<const Grammar> shared = grammar_of(false);
  EXPECT_TRUE(accepts(*shared, kFinal + "the text with {} braces"));
  EXPECT_TRUE(accepts(*shared, call_of("now", "{}")));
  EXPECT_FALSE(accepts(*shared, "text without a header"));
}

TEST(HarmonyFormat, AnAnswerOfASchemaOrACall) {
  const std::shared_ptr<const Grammar> shared =
      grammar_of(false, R"({"type":"object","properties":{"n":{"type":"integer"}},
    "required":["n"],"additionalProperties":false})");
  EXPECT_TRUE(accepts(*shared, kFinal + R"({"n": 5})"));
  EXPECT_TRUE(accepts(*shared, call_of("now", "{}")));
  EXPECT_FALSE(accepts(*shared, kFinal + "text"));
}

}  // namespace
}  // namespace ft::harmony_test
