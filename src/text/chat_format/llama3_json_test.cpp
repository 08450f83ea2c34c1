#include "text/chat_format/llama3_json.h"

#include <gtest/gtest.h>

#include "text/grammar.h"
#include "text/tool_grammar.h"

namespace ft::llama3_json_test {
namespace {

const std::string kTools =
    R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
  "properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}}},
  {"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}])";

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = std::move(Tokenizer::load("tests/golden/gemma4/odd")).value();
  return kTokenizer;
}

std::shared_ptr<const Grammar> grammar_of(bool required, const std::string& answer_schema = "") {
  ToolCallRules rules;
  rules.tools_json = kTools, rules.format = &kLlama3JsonFormat, rules.required = required;
  rules.answer_schema = answer_schema;
  const GrammarCompiler compiler(tokenizer(), {1, 106, 50});
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
  const Result<std::vector<int32_t>> ids = tokenizer().encode(text, false);
  for (const int32_t id : *ids) {
    if (!allows(id) || !matcher.consume({&id, 1}).ok()) return false;
  }
  return allows(50);
}

TEST(Llama3JsonFormat, ARequiredCallFollowsTheSchemas) {
  const std::shared_ptr<const Grammar> shared = grammar_of(true);
  const Grammar& grammar = *shared;
  EXPECT_TRUE(accepts(grammar, R"({"name": "get_weather", "parameters": {"city": "Oslo", "days": 2}})"));
  EXPECT_TRUE(accepts(grammar, R"({"name": "now", "parameters": {}})"));
  EXPECT_FALSE(accepts(grammar, R"({"name": "get_weather", "parameters": {"days": 2}})"));
  EXPECT_FALSE(accepts(grammar, R"({"name": "other", "parameters": {}})"));
  EXPECT_FALSE(accepts(grammar, "text")) << "a call is required";
  EXPECT_FALSE(accepts(grammar, R"({"name": "now", "parameters": {}}{"name": "now", "parameters": {}})"))
      << "the template renders one call of an answer";
}

TEST(Llama3JsonFormat, AnAnswerIsTextOrACall) {
  const std::shared_ptr<const Grammar> shared = grammar_of(false);
  const Grammar& grammar = *shared;
  EXPECT_TRUE(accepts(grammar, "text with {} braces"));
  EXPECT_TRUE(accepts(grammar, R"({"name": "now", "parameters": {}})"));
  EXPECT_FALSE(accepts(grammar, R"({"name": "other"})")) << "what begins like a call is one";
}

TEST(Llama3JsonFormat, AnAnswerOfASchemaOrACall) {
  const std::shared_ptr<const Grammar> shared =
      grammar_of(false, R"({"type":"object","properties":{"n":{"type":"integer"}},
    "required":["n"],"additionalProperties":false})");
  const Grammar& grammar = *shared;
  EXPECT_TRUE(accepts(grammar, R"({"n": 5})"));
  EXPECT_TRUE(accepts(grammar, R"({"name": "now", "parameters": {}})"));
  EXPECT_FALSE(accepts(grammar, "text"));
}

TEST(Llama3JsonFormat, IsKnownByItsTemplate) {
  EXPECT_TRUE(is_llama3_json_template(
      R"({{- '<|start_header_id|>assistant' }}{{- '{"name": "' + name + '", ' }}{{- '"parameters": ' }})"));
  EXPECT_FALSE(is_llama3_json_template("<|start_header_id|>{{ role }}<|end_header_id|>")) << "Llama 3.0";
  EXPECT_FALSE(is_llama3_json_template(""));
}

}  // namespace
}  // namespace ft::llama3_json_test
