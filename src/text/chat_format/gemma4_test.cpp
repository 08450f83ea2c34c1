// The chat format of Gemma 4 on the odd model's tokenizer, whose special tokens have the public models' ids.
// FORETOKEN_TRAINED adds the trained model's tokenizer and template with their golden files.
#include "text/chat_format/gemma4.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/answer.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/grammar.h"
#include "text/thinking_marks.h"
#include "text/tool_grammar.h"

namespace ft::gemma4_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kModel = "tests/golden/gemma4/odd";
const std::string kTools =
    R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
  "properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]},
  "where":{"type":"object","properties":{"x":{"type":"number"},"y":{"type":"number"}},"required":["y"]},
  "list":{"type":"array","items":{"type":"string"}}},"required":["city"]}}},
  {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = std::move(Tokenizer::load(kModel)).value();
  return kTokenizer;
}

std::vector<int32_t> ids_of(const std::string& text) {
  return std::move(tokenizer().encode(text, false)).value();
}

std::vector<int32_t> end_tokens() { return {1, 106, 50}; }

Json read_json(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return Json::parse(file);
}

std::string shown(const std::string& text, bool starts_in_reasoning = false) {
  AnswerOptions options;
  options.parse_tools = true;
  options.tools_json = kTools;
  options.starts_in_reasoning = starts_in_reasoning;
  Answer answer = std::move(Answer::create(tokenizer(), kGemma4Format, options)).value();
  std::vector<AnswerEvent> events;
  const auto take = [&](std::vector<AnswerEvent> some) {
    events.insert(events.end(), some.begin(), some.end());
  };
  for (const int32_t id : ids_of(text)) take(answer.push(id));
  take(answer.finish(false));
  std::string all;
  for (size_t i = 0; i < events.size(); ++i) {
    const bool same = i > 0 && events[i].kind == events[i - 1].kind;
    if (!same) all += "ptCRBAE"[static_cast<size_t>(events[i].kind)] + std::string(":");
    all += events[i].text;
  }
  return all;
}

TEST(Gemma4Format, AnAnswerIsDividedAtItsTagsThoughTheyAreSpecialTokens) {
  EXPECT_EQ(shown("<|channel>thought\nwhy\n<channel|>yes<turn|>"), "R:whyC:yes");
  EXPECT_EQ(shown("why\n<channel|>\nyes", true), "R:whyC:yes");
  EXPECT_EQ(shown("<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|><|tool_response>"),
            R"(B:get_weatherA:{"city":"Oslo","days":2}E:)");
  EXPECT_EQ(shown("<|channel>thought\nhm <|tool_call>call:now{}<tool_call|>"), "R:hm B:nowA:{}E:");
  EXPECT_EQ(shown("a<turn|>b<|think|>"), "C:ab") << "other special tokens are left out";
}

TEST(Gemma4Format, ThePromptSaysWhetherReasoningHasBegun) {
  const ReasoningTags& tags = kGemma4Format.reasoning;
  EXPECT_TRUE(prompt_opens_thinking("<|turn>model\n<|channel>thought\n", tags));
  EXPECT_TRUE(prompt_closes_thinking("<|turn>model\n<|channel>thought\n<channel|>", tags));
  EXPECT_FALSE(prompt_opens_thinking("<|turn>model\n", tags));
  const ThinkingMarks marks(tokenizer(), end_tokens(), kGemma4Format);
  EXPECT_EQ(marks.open(), 100);
  EXPECT_EQ(marks.close(), std::vector<int32_t>{101});
  EXPECT_TRUE(marks.gap().empty());
}

/// True if the tokens of `text` are allowed in sequence, followed by the end.
bool accepts(const Grammar& grammar, const std::string& text) {
  GrammarMatcher matcher = std::move(grammar.start()).value();
  std::vector<uint32_t> mask(static_cast<size_t>(tokenizer().vocab_size()) / 32 + 1);
  const auto allows = [&](int32_t id) {
    EXPECT_TRUE(matcher.mask(mask).ok());
    return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1U) != 0;
  };
  for (const int32_t id : ids_of(text)) {
    if (!allows(id) || !matcher.consume({&id, 1}).ok()) return false;
  }
  return allows(50);
}

TEST(Gemma4Format, ARequiredCallFollowsTheSchemas) {
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &kGemma4Format, rules.required = true;
  const auto lark = tool_call_lark(rules, tokenizer());
  ASSERT_TRUE(lark.ok()) << lark.error().message;
  const GrammarCompiler compiler(tokenizer(), end_tokens());
  const auto grammar = compiler.tool_calls(rules);
  ASSERT_TRUE(grammar.ok()) << grammar.error().message << "\n" << *lark;
  const auto call = [](const std::string& inside) { return "<|tool_call>call:" + inside + "<tool_call|>"; };
  EXPECT_TRUE(accepts(**grammar, call("get_weather{city:<|\"|>Oslo, {x}<|\"|>}")));
  EXPECT_TRUE(accepts(**grammar, call("get_weather{city:<|\"|>a<|\"|>,days:-3,unit:<|\"|>F<|\"|>}")));
  EXPECT_TRUE(accepts(
      **grammar, call("get_weather{city:<|\"|><|\"|>,list:[<|\"|>a<|\"|>,<|\"|>b<|\"|>],where:{y:1.5}}")));
  EXPECT_TRUE(accepts(**grammar, call("now{}") + call("now{}")));
  for (const char* wrong :
       {"get_weather{}", "get_weather{city:Oslo}", "get_weather{city:<|\"|>a<|\"|>,days:x}",
        "get_weather{city:<|\"|>a<|\"|>,unit:<|\"|>K<|\"|>}", "other{}", "now{a:1}",
        "get_weather{city:<|\"|>a<|\"|>,where:{x:1}}", "get_weather{city:<|\"|>a<|\"|>"}) {
    EXPECT_FALSE(accepts(**grammar, call(wrong))) << wrong;
  }
  EXPECT_FALSE(accepts(**grammar, "text"));
}

bool allowed(const std::string& parameters, const std::string& inside, const std::string& name = "f") {
  ToolCallRules rules;
  rules.format = &kGemma4Format, rules.required = true, rules.parallel = false;
  rules.tools_json = Json::array({{{"name", name}, {"parameters", Json::parse(parameters)}}}).dump();
  const auto grammar = GrammarCompiler(tokenizer(), end_tokens()).tool_calls(rules);
  EXPECT_TRUE(grammar.ok()) << grammar.error().message << "\n" << *tool_call_lark(rules, tokenizer());
  return grammar.ok() && accepts(**grammar, "<|tool_call>call:" + name + "{" + inside + "}<tool_call|>");
}

TEST(Gemma4Format, AValueFollowsItsSchema) {
  const auto one = [](const std::string& schema, const std::string& value) {
    return allowed(
        R"({"properties": {"a": )" + schema + R"(}, "required": ["a"], "$defs": {"U": {"enum": ["C", "F"]},
      "P": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}})",
        "a:" + value);
  };
  const std::string pair = R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2})";
  EXPECT_TRUE(one(pair, "[1,2]"));
  EXPECT_FALSE(one(pair, "[1]"));
  EXPECT_FALSE(one(pair, "[1,2,3]"));
  const std::string tuple =
      R"({"prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": false, "minItems": 2})";
  EXPECT_TRUE(one(tuple, "[1,true]"));
  EXPECT_FALSE(one(tuple, "[true,1]"));
  const std::string map =
      R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2})";
  EXPECT_TRUE(one(map, "{k:1,l:2}"));
  EXPECT_FALSE(one(map, "{k:1}"));
  EXPECT_FALSE(one(map, "{k:1,k:2}"));
  EXPECT_FALSE(one(map, "{k:1,l:<|\"|>x<|\"|>}"));
  EXPECT_TRUE(one(R"({"allOf": [{"$ref": "#/$defs/P"}]})", "{x:1}"));
  EXPECT_FALSE(one(R"({"allOf": [{"$ref": "#/$defs/P"}]})", "{}"));
  EXPECT_TRUE(one(R"({"anyOf": [{"$ref": "#/$defs/U"}, {"type": "null"}]})", "<|\"|>C<|\"|>"));
  EXPECT_FALSE(one(R"({"anyOf": [{"$ref": "#/$defs/U"}, {"type": "null"}]})", "<|\"|>K<|\"|>"));
  EXPECT_TRUE(one(R"({"type": "string", "pattern": "^[0-9]{3}$"})", "<|\"|>123<|\"|>"));
  EXPECT_FALSE(one(R"({"type": "string", "pattern": "^[0-9]{3}$"})", "<|\"|>12<|\"|>"));
  EXPECT_TRUE(one(R"({"const": {"k": [1, "x"]}})", "{k:[1,<|\"|>x<|\"|>]}"));
}

TEST(Gemma4Format, OddNamesAreWrittenOrRefusedByName) {
  const char* parameters =
      R"({"properties": {"filter[status]": {"type": "integer"}}, "required": ["filter[status]"]})";
  for (const char* name : {"files/read", "größe ändern", "a.b-c"}) {
    EXPECT_TRUE(allowed(parameters, "filter[status]:1", name)) << name;
  }
  EXPECT_TRUE(
      allowed(R"({"properties": {"a:b": {"type": "integer"}}, "required": ["a:b"]})", "<|\"|>a:b<|\"|>:1"));
  ToolCallRules rules;
  rules.format = &kGemma4Format, rules.required = true, rules.tools_json = R"([{"name": "a{b"}])";
  const auto refused = GrammarCompiler(tokenizer(), end_tokens()).tool_calls(rules);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("'a{b'"), std::string::npos);
}

TEST(Gemma4Tokenizer, IdsAndTextsAreThoseOfTheLibrary) {
  for (const Json& row : read_json(std::string(kModel) + "/golden_tokens.json")) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(ids_of(row["text"].get<std::string>()), ids) << row;
    EXPECT_EQ(tokenizer().decode(ids, false), row["decoded"].get<std::string>()) << row;
  }
  EXPECT_EQ(tokenizer().encode("a", true)->front(), 2) << "a raw prompt begins with <bos>";
}

class Gemma4Trained : public testing::Test {
 protected:
  void SetUp() override {
    const char* trained = std::getenv("FORETOKEN_TRAINED");
    if (trained == nullptr) GTEST_SKIP() << "FORETOKEN_TRAINED names no folder: nothing was compared";
    folder_ = std::string(trained) + "/gemma4-tiny";
    if (!std::ifstream(folder_ + "/config.json").good()) GTEST_SKIP() << folder_ << " is absent";
  }
  std::string folder_;
};

TEST_F(Gemma4Trained, TokenizerIsThatOfTransformers) {
  const Tokenizer trained = std::move(Tokenizer::load(folder_)).value();
  for (const Json& row : read_json(folder_ + "/golden/tokenizer.json")) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(*trained.encode(row["text"].get<std::string>(), false), ids) << row["text"];
    EXPECT_EQ(trained.decode(ids, false), row["decoded"].get<std::string>()) << row["text"];
    Detokenizer streamed(trained, false);
    std::string text;
    for (const int32_t id : ids) text += streamed.push(id);
    EXPECT_EQ(text + streamed.flush(), row["decoded"].get<std::string>()) << row["text"];
  }
}

TEST_F(Gemma4Trained, TemplateIsThatOfTransformers) {
  const ChatTemplate chat = std::move(ChatTemplate::load(folder_)).value();
  for (const Json& row : read_json(folder_ + "/golden/template.json")) {
    RenderOptions options;
    Json extra = row["kwargs"];
    options.add_generation_prompt = extra.value("add_generation_prompt", true);
    options.extra_json = extra.dump();
    const auto text =
        chat.render(row["messages"].dump(), row["tools"].is_null() ? "" : row["tools"].dump(), options);
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(*text, row["rendered"].get<std::string>());
  }
}

}  // namespace
}  // namespace ft::gemma4_test
