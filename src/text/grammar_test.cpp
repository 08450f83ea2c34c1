// Grammars over the vocabulary of the shipped model: allowed answers, masks that depend only on the tokens,
// and refusals.
#include "text/grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/grammar_fixture.h"

namespace ft::grammar_test {
namespace {

using namespace grammar_fixture;

constexpr const char* kPerson = R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
    "kind": {"enum": ["cat", "dog"]}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2}},
    "required": ["name", "age", "kind"], "additionalProperties": false})";

TEST(Grammar, JsonFollowsItsSchema) {
  const auto grammar = schema(kPerson);
  EXPECT_TRUE(accepts(*grammar, R"({"name": "Ann", "age": 7, "kind": "cat"})"));
  EXPECT_TRUE(accepts(*grammar, R"({"name": "Ann", "age": 7, "kind": "dog", "tags": ["a", "b"]})"));
  EXPECT_FALSE(accepts(*grammar, R"({"name": "Ann", "age": 7})"));
  EXPECT_FALSE(accepts(*grammar, R"({"name": "Ann", "age": 700, "kind": "cat"})"));
  EXPECT_FALSE(accepts(*grammar, R"({"name": "Ann", "age": 7, "kind": "cow"})"));
  EXPECT_FALSE(accepts(*grammar, R"({"name": "Annannann", "age": 7, "kind": "cat"})"));
}

TEST(Grammar, NamesOfPropertiesFollowTheirSchema) {
  const auto grammar = schema(R"({"anyOf": [{"$ref": "#/$defs/map"}, {"type": "null"}], "$defs": {"map": {
    "type": "object", "additionalProperties": {"type": "integer"},
    "patternProperties": {"^x-": {"type": "null"}}, "propertyNames": {"anyOf": [
    {"const": "total"}, {"maxLength": 3}, {"format": "date"}]}}}})");
  EXPECT_TRUE(accepts(*grammar, R"({"abc": 1, "total": 2, "2024-02-28": 3, "x-": null})"));
  EXPECT_TRUE(accepts(*grammar, "{}"));
  EXPECT_FALSE(accepts(*grammar, R"({"abcd": 1})"));
  EXPECT_FALSE(accepts(*grammar, R"({"2024-02-31": 1})"));
  EXPECT_FALSE(accepts(*grammar, R"({"x-yz": null})"));
  EXPECT_FALSE(accepts(*grammar, R"({"x-": 1})"));
}

TEST(Grammar, ANumberBeyondAWholeBoundIsNotTheBound) {
  const auto grammar = schema(R"({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5})");
  EXPECT_FALSE(accepts(*grammar, "0"));
  EXPECT_FALSE(accepts(*grammar, "0.0"));
  EXPECT_TRUE(accepts(*grammar, "0.001"));
  EXPECT_TRUE(accepts(*grammar, "0.5"));
}

TEST(Grammar, WholeNumbersOf64BitsAreWrittenToTheirLastDigit) {
  for (const char* number : {"-9223372036854775808", "9223372036854775807", "12345678901234567890"}) {
    for (const char* form : {R"({{"const": {}}})", R"({{"items": {{"enum": [1, {}]}}, "type": "array"}})"}) {
      const auto grammar = schema(fmt::format(fmt::runtime(form), number));
      const bool list = std::string_view(form).find("items") != std::string_view::npos;
      EXPECT_TRUE(accepts(*grammar, list ? fmt::format("[{}]", number) : number)) << form << number;
    }
  }
  EXPECT_FALSE(accepts(*schema(R"({"const": 12345678901234567890})"), "12345678901234567000"));
  const auto lark = compiler().lark("start: %json {\"const\": -9223372036854775808}\n");
  ASSERT_FALSE(lark.ok());
  EXPECT_NE(lark.error().message.find("at or below"), std::string::npos) << lark.error().message;
}

TEST(Grammar, AStrictSchemaIsRefusedForAReferenceThatIsNotFollowed) {
  constexpr const char* kDynamic = R"({"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}})";
  const auto strict = compiler().json_schema(kDynamic);
  ASSERT_FALSE(strict.ok());
  EXPECT_NE(strict.error().message.find("$dynamicRef"), std::string::npos);
  EXPECT_TRUE(compiler().json_schema(kDynamic, SchemaRule::kLenient).ok());
}

TEST(Grammar, JsonObjectIsAnyObjectAndNothingElse) {
  const auto grammar = std::move(compiler().json_object()).value();
  EXPECT_TRUE(accepts(*grammar, R"({"a": [1, {"b": null}], "c": "\n"})"));
  EXPECT_FALSE(accepts(*grammar, R"([1])"));
  EXPECT_FALSE(accepts(*grammar, R"({"a": 1} and more)"));
}

TEST(Grammar, RegexIsTheWholeAnswer) {
  const auto grammar = std::move(compiler().regex("(yes|no)(, (yes|no))*")).value();
  EXPECT_TRUE(accepts(*grammar, "yes, no, yes"));
  EXPECT_FALSE(accepts(*grammar, "yes, maybe"));
  EXPECT_FALSE(accepts(*grammar, "yes,"));
}

TEST(Grammar, LarkHasRules) {
  const auto grammar = std::move(compiler().lark("start: term (\"+\" term)*\nterm: /[0-9]+/\n")).value();
  EXPECT_TRUE(accepts(*grammar, "1+23+4"));
  EXPECT_FALSE(accepts(*grammar, "1++2"));
}

TEST(Grammar, AddedTokensBelongToNoText) {
  const auto grammar = std::move(compiler().regex("(?s:.*)")).value();
  GrammarMatcher matcher = std::move(grammar->start()).value();
  const std::vector<uint32_t> mask = mask_of(matcher);
  for (const char* name : {"<think>", "</think>", "<tool_call>", "<|im_start|>"}) {
    EXPECT_FALSE(allows(mask, *tokenizer().id_of(name))) << name;
  }
  for (const int32_t id : end_tokens()) EXPECT_TRUE(allows(mask, id));
}

TEST(Grammar, NothingBehindTheVocabularyIsAllowed) {
  const auto grammar = std::move(compiler().regex("(?s:.*)")).value();
  GrammarMatcher matcher = std::move(grammar->start()).value();
  for (const int32_t id : allowed_ids(mask_of(matcher))) EXPECT_LT(id, tokenizer().vocab_size());
}

TEST(Grammar, ItsEndAllowsTheEndTokensOnly) {
  const auto grammar = std::move(compiler().regex("ok")).value();
  GrammarMatcher matcher = std::move(grammar->start()).value();
  EXPECT_FALSE(matcher.accepting());
  for (const int32_t id : ids_of("ok")) EXPECT_TRUE(matcher.consume({&id, 1}).ok());
  EXPECT_TRUE(matcher.accepting());
  EXPECT_TRUE(matcher.stopped());
  std::vector<int32_t> ends = end_tokens();
  std::sort(ends.begin(), ends.end());
  EXPECT_EQ(allowed_ids(mask_of(matcher)), ends);
}

TEST(Grammar, ForcedTokensAreTheOnlyOnesAllowed) {
  const auto grammar = schema(kPerson);
  GrammarMatcher matcher = std::move(grammar->start()).value();
  const std::vector<int32_t> forced = std::move(matcher.forced()).value();
  ASSERT_FALSE(forced.empty());
  EXPECT_EQ(tokenizer().decode(forced, false).substr(0, 6), R"({"name)");
  for (const int32_t id : forced) {
    EXPECT_EQ(allowed_ids(mask_of(matcher)), std::vector<int32_t>{id});
    ASSERT_TRUE(matcher.consume({&id, 1}).ok());
  }
}

/// The central guarantee: whatever was tried and rolled back before, a mask equals the mask of a matcher that
/// has only seen the tokens.
void expect_masks_of_history(const Grammar& grammar, uint64_t seed, size_t steps) {
  std::mt19937_64 random(seed);
  GrammarMatcher walked = std::move(grammar.start()).value();
  std::vector<int32_t> kept;
  for (size_t step = 0; step < steps; ++step) {
    const size_t ahead = random() % 6;
    size_t tried = 0;
    for (; tried < ahead; ++tried) {
      if (random() % 2 == 0) {
        EXPECT_TRUE(walked.forced().ok());
      }
      const std::vector<int32_t> ids = allowed_ids(mask_of(walked));
      const int32_t id = ids[random() % ids.size()];
      if (tokenizer().is_special(id)) break;
      ASSERT_TRUE(walked.consume({&id, 1}).ok());
      kept.push_back(id);
    }
    const size_t back = random() % (tried + 1);
    ASSERT_TRUE(walked.rollback(back).ok());
    kept.resize(kept.size() - back);
    GrammarMatcher fresh = std::move(grammar.start()).value();
    ASSERT_TRUE(fresh.consume(kept).ok());
    ASSERT_EQ(mask_of(walked), mask_of(fresh)) << "after: " << tokenizer().decode(kept, false);
    ASSERT_EQ(*walked.forced(), *fresh.forced()) << "after: " << tokenizer().decode(kept, false);
  }
}

TEST(Grammar, MasksAreAFunctionOfTheTokensAlone) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools;
  const std::shared_ptr<const Grammar> grammars[] = {
      schema(kPerson), std::move(compiler().json_object()).value(),
      std::move(compiler().regex("(é|ab+c|\\d{2,4}[a-z ]*)+x")).value(),
      std::move(
          compiler().lark("start: a <[8186]> b+ <[8187]>\na: /[a-z]*/\nb: \"longer literal\" | /[0-9]/\n"))
          .value(),
      tools(rules)};
  for (const auto& grammar : grammars) {
    for (uint64_t seed = 0; seed < 4; ++seed) expect_masks_of_history(*grammar, seed, 30);
  }
}

TEST(Grammar, RandomAnswersAreValid) {
  const auto grammar = schema(kPerson);
  int ended = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = draw(*grammar, seed, 300);
    const auto value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded()) continue;  // a long string was cut
    ++ended;
    EXPECT_LE(value["age"].get<int>(), 130) << text;
    EXPECT_TRUE(value["kind"] == "cat" || value["kind"] == "dog") << text;
  }
  EXPECT_GT(ended, 10);
}

// ---- what is refused
// ---------------------------------------------------------------------------------------

TEST(Grammar, ABadSchemaIsNamed) {
  EXPECT_NE(refusal(compiler().json_schema("{")).find("not JSON"), std::string::npos);
  EXPECT_NE(refusal(compiler().json_schema("[]")).find("an array"), std::string::npos);
  EXPECT_NE(refusal(compiler().json_schema(R"({"type": "strnig"})")).find("strnig"), std::string::npos);
  EXPECT_NE(refusal(compiler().json_schema(R"({"$ref": "#/$defs/nothing"})")).find("nothing"),
            std::string::npos);
  EXPECT_NE(refusal(compiler().json_schema(R"({"$ref": "https://example.com/a.json"})")), "");
  EXPECT_NE(refusal(compiler().json_schema(R"({"type": "array", "uniqueItems": true})")).find("uniqueItems"),
            std::string::npos);
  EXPECT_TRUE(compiler().json_schema(R"({"type": "array", "uniqueItems": true})", SchemaRule::kLenient).ok());
  EXPECT_NE(refusal(compiler().regex("(")), "");
  EXPECT_NE(refusal(compiler().lark("start: nothing")).find("nothing"), std::string::npos);
  EXPECT_NE(refusal(compiler().lark("start: a\na[max_tokens=3]: /.*/")).find("max_tokens"),
            std::string::npos);
}

TEST(Grammar, NoRefusalShowsTheInsideOfALibrary) {
  for (const char* bad :
       {R"({"type": "strnig"})", R"({"enum": []})", R"({"allOf": [{"type": "null"}, {"type": "string"}]})"}) {
    const std::string message = refusal(compiler().json_schema(bad));
    EXPECT_EQ(message.find("backtrace"), std::string::npos) << message;
    EXPECT_LT(message.size(), 600U) << message;
  }
}

TEST(Grammar, WhatIsTooLongIsRefused) {
  const auto schema_of = [](size_t bytes) {
    const std::string_view frame = R"({"description": ""})";
    return fmt::format(R"({{"description": "{}"}})", std::string(bytes - frame.size(), 'x'));
  };
  EXPECT_TRUE(compiler().json_schema(schema_of(kMaxSchemaBytes)).ok());
  EXPECT_NE(refusal(compiler().json_schema(schema_of(kMaxSchemaBytes + 1))).find("131073 bytes"),
            std::string::npos);
  const std::string grammar = "start: \"a\"\n";
  const std::string padding(kMaxGrammarBytes - grammar.size(), '\n');
  EXPECT_TRUE(compiler().lark(grammar + padding).ok());
  EXPECT_NE(refusal(compiler().lark(grammar + padding + "\n")).find("65537 bytes"), std::string::npos);
  EXPECT_NE(refusal(compiler().regex(std::string(kMaxGrammarBytes + 1, 'a'))).find("65537 bytes"),
            std::string::npos);
}

TEST(Grammar, WhatIsTooDeepIsRefused) {
  const auto nested = [](int depth) {
    std::string text = R"({"type": "integer"})";
    for (int i = 1; i < depth; ++i) text = fmt::format(R"({{"type": "array", "items": {}}})", text);
    return text;
  };
  EXPECT_TRUE(compiler().json_schema(nested(kMaxGrammarDepth)).ok());
  EXPECT_NE(refusal(compiler().json_schema(nested(kMaxGrammarDepth + 1))).find("nested 65 deep"),
            std::string::npos);
  const std::string groups = "start: " + std::string(1000, '(') + "\"a\"" + std::string(1000, ')');
  EXPECT_NE(refusal(compiler().lark(groups)).find("deeply nested"), std::string::npos);
  EXPECT_NE(refusal(compiler().regex(std::string(1000, '(') + "a" + std::string(1000, ')'))), "");
}

TEST(Grammar, ASchemaWithoutAnyTextIsRefusedInWords) {
  for (const SchemaRule rule : {SchemaRule::kStrict, SchemaRule::kLenient}) {
    const GrammarCompiler::Compiled endless = compiler().json_schema(R"({"$ref": "#"})", rule);
    ASSERT_FALSE(endless.ok());
    EXPECT_EQ(endless.error().code, Code::kInvalid);
    EXPECT_NE(refusal(endless).find("it allows no text at all"), std::string::npos) << refusal(endless);
  }
}

TEST(Grammar, ATooLargeSourceIsTheCallersFault) {
  const std::string large = fmt::format(R"({{"description": "{}"}})", std::string(kMaxSchemaBytes, 'x'));
  const GrammarCompiler::Compiled beyond = compiler().json_schema(large);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, Code::kInvalid);
}

TEST(Grammar, TooManySymbolsAreRefused) {
  std::string schema = R"({"type": "object", "properties": {)";
  for (int i = 0; i < 9'000; ++i) schema += fmt::format(R"({}"{:x}":{{}})", i == 0 ? "" : ",", i);
  const GrammarCompiler::Compiled beyond = compiler().json_schema(schema + "}}");
  EXPECT_NE(refusal(beyond).find("number of symbols"), std::string::npos) << refusal(beyond);
}

TEST(Grammar, TooMuchWorkIsRefused) {
  std::string expression;
  for (int i = 0; i < 5000; ++i) expression += "(a|b?)*";
  const GrammarCompiler::Compiled beyond = compiler().regex(expression);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, Code::kInvalid);
  EXPECT_NE(refusal(beyond).find("units of lexer work"), std::string::npos) << refusal(beyond);
}

TEST(Grammar, NumbersThatMakeLargeAutomataAreRefusedBeforeTheyAreBuilt) {
  const GrammarCompiler& grammars = compiler();
  for (const char* schema :
       {R"({"type": "integer", "multipleOf": 9999991})", R"({"type": "number", "multipleOf": 0.12345678})",
        R"({"items": {"allOf": [{"multipleOf": 997}, {"multipleOf": 991}]}})",
        R"({"type": "string", "pattern": "^(a{1000}){1000}$"})"}) {
    for (const SchemaRule rule : {SchemaRule::kStrict, SchemaRule::kLenient}) {
      const auto refused = grammars.json_schema(schema, rule);
      ASSERT_FALSE(refused.ok()) << schema;
      EXPECT_NE(refused.error().message.find("more than the limit of"), std::string::npos)
          << refused.error().message;
    }
  }
  EXPECT_FALSE(grammars.regex("(a{1000}){1000}").ok());
  EXPECT_FALSE(grammars.lark("start: %json {\"multipleOf\": 99999999}").ok());
  EXPECT_FALSE(grammars.lark("start: (\"a\"{1000}){1000}").ok());
  EXPECT_TRUE(grammars.json_schema(R"({"type": "integer", "multipleOf": 5})").ok());
  EXPECT_TRUE(grammars.regex("[0-9]{1,1000}").ok());
}

}  // namespace
}  // namespace ft::grammar_test
