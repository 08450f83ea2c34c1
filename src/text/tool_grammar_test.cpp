// The grammars of tool calls: the texts that each rule of a request allows, which the tool parser must read.
#include "text/tool_grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "text/chat_format/hermes.h"
#include "text/chat_format/qwen3_5.h"
#include "text/chat_format/qwen3_5_parser.h"
#include "text/grammar_fixture.h"

namespace ft::tool_grammar_test {
namespace {

using namespace grammar_fixture;

constexpr const char* kCall =
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n"
    "</parameter>\n</function>\n</tool_call>";
constexpr const char* kNow = "<tool_call>\n<function=now>\n</function>\n</tool_call>";

TEST(ToolGrammar, RequiredCallsLeaveNoText) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.required = true;
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar, kCall));
  EXPECT_TRUE(accepts(*grammar, std::string(kCall) + "\n" + kNow));
  EXPECT_FALSE(accepts(*grammar, "Sunny."));
  EXPECT_FALSE(accepts(*grammar, ""));
  EXPECT_FALSE(accepts(*grammar, std::string("Let me see.\n\n") + kCall));
}

TEST(ToolGrammar, ANamedToolIsTheOnlyOne) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.required = true, rules.parallel = false, rules.allowed = {"now"};
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar, kNow));
  EXPECT_FALSE(accepts(*grammar, kCall));
}

TEST(ToolGrammar, OneCallAtMostAndTextBeforeIt) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.parallel = false;
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar, "It is sunny."));
  EXPECT_TRUE(accepts(*grammar, std::string("Let me see.\n\n") + kCall));
  EXPECT_TRUE(accepts(*grammar, kNow));
  EXPECT_FALSE(accepts(*grammar, std::string(kCall) + "\n" + kNow));
  EXPECT_FALSE(accepts(*grammar, std::string(kNow) + "\nand more"));
}

TEST(ToolGrammar, OnSightGrammarsAreKeptForTheirOwner) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.on_sight = true, rules.owner = 1;
  const auto grammar = tools(rules);
  EXPECT_TRUE(grammar->on_sight());
  EXPECT_TRUE(accepts(*grammar, std::string(kCall) + "\n" + kNow));
  EXPECT_FALSE(accepts(*grammar, "text")) << "it begins with the call";
  EXPECT_EQ(tools(rules), grammar);
  rules.owner = 2;
  EXPECT_NE(tools(rules), grammar);
}

TEST(ToolGrammar, OnSightAToolThatCannotBeUsedDoesNotRefuseTheOthers) {
  ToolCallRules rules = qwen_rules();
  rules.on_sight = true;
  rules.tools_json = R"([{"function": {"name": "a<b"}}, {"function": {"name": "now", "parameters": {
      "type": "object", "properties": {"x": {"type": "no such"}, "y": {"enum": []}}, "required": ["y"]}}}])";
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar,
                      "<tool_call>\n<function=now>\n<parameter=y>\n1\n</parameter>\n</function>\n"
                      "</tool_call>"));
  EXPECT_FALSE(accepts(*grammar, "<tool_call>\n<function=a<b>\n</function>\n</tool_call>"));
  const std::string_view uncallable[] = {
      R"([{"function": {"name": "a<b"}}])",
      R"([{"function": {"name": "now", "parameters": {"properties": {"x": false}, "required": ["x"]}}}])",
      R"([{"function": {"name": "now", "parameters": {"properties": {"x": {"const": "</parameter>"}},
          "required": ["x"]}}}])"};
  for (const std::string_view tools_json : uncallable) {
    rules.tools_json = tools_json;
    EXPECT_NE(refusal(compiler().tool_calls(rules)).find("no tool can be written"), std::string::npos)
        << tools_json;
  }
}

TEST(ToolGrammar, OnSightTooManySchemasLeaveTheNames) {
  nlohmann::json all = nlohmann::json::array();
  for (int i = 0; i < 60; ++i) {
    nlohmann::json properties;
    for (int j = 0; j < 400; ++j)
      properties[fmt::format("property_{}_{}", i, j)] = {
          {"type", "array"}, {"items", {{"pattern", "^[a-z]{3}-[0-9]{4}$"}, {"type", "string"}}}};
    all.push_back({{"function",
                    {{"name", fmt::format("tool_{}", i)},
                     {"parameters", {{"type", "object"}, {"properties", properties}}}}}});
  }
  ToolCallRules rules = qwen_rules();
  rules.tools_json = all.dump(), rules.on_sight = true;
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar, "<tool_call>\n<function=tool_59>\n</function>\n</tool_call>"));
  EXPECT_FALSE(accepts(*grammar, "<tool_call>\n<function=tool_60>\n</function>\n</tool_call>"));
}

constexpr const char* kCity = R"({"type": "object", "properties": {"city": {"$ref": "#/$defs/name"}},
    "required": ["city"], "additionalProperties": false, "$defs": {"name": {"type": "string"}}})";

TEST(ToolGrammar, CallsOrAnAnswerOfTheSchemaAndNothingElse) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.answer_schema = kCity;
  for (const ChatFormat* format : {&kQwen35Format, &kHermesFormat}) {
    rules.format = format;
    const auto grammar = tools(rules);
    EXPECT_TRUE(accepts(*grammar, R"({"city": "Paris <function=now> x"})"));
    EXPECT_FALSE(accepts(*grammar, R"({"town": "Paris"})"));
    EXPECT_FALSE(accepts(*grammar, "It is Paris."));
    EXPECT_FALSE(accepts(*grammar, ""));
  }
  rules.format = &kQwen35Format;
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar, kCall));
  EXPECT_TRUE(accepts(*grammar, std::string(kCall) + "\n" + kNow));
  EXPECT_FALSE(accepts(*grammar, std::string(R"({"city": "Paris"})") + kNow));
  EXPECT_FALSE(accepts(*grammar, std::string(kNow) + R"({"city": "Paris"})"));
  EXPECT_FALSE(accepts(*grammar, "Let me see.\n" + std::string(kNow)));
  rules.parallel = false;
  EXPECT_FALSE(accepts(*tools(rules), std::string(kCall) + "\n" + kNow));
}

TEST(ToolGrammar, AnAnswersSchemaIsHeldToItsRule) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools;
  rules.answer_schema = R"({"type": "array", "items": {"type": "integer"}, "uniqueItems": true})";
  EXPECT_NE(refusal(compiler().tool_calls(rules)), "");  // an unenforceable keyword
  rules.answer_rule = SchemaRule::kLenient;
  EXPECT_TRUE(accepts(*tools(rules), "[1, 2]"));
  rules.answer_schema = "true";
  EXPECT_TRUE(accepts(*tools(rules), R"({"a": null})"));
  for (const char* schema : {"7", "{", "[]"}) {
    rules.answer_schema = schema;
    EXPECT_NE(refusal(compiler().tool_calls(rules)).find("JSON schema"), std::string::npos);
  }
  std::string deep;
  for (int i = 0; i < kMaxGrammarDepth; ++i) deep += R"({"items":)";
  rules.answer_schema = deep + "true" + std::string(kMaxGrammarDepth, '}');
  EXPECT_TRUE(compiler().tool_calls(rules).ok());
  rules.answer_schema = R"({"items":)" + rules.answer_schema + "}";
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("64 levels"), std::string::npos);
}

TEST(ToolGrammar, ArgumentsFollowTheirSchemas) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.required = true;
  const auto grammar = tools(rules);
  const auto call = [](std::string_view days, std::string_view rest) {
    return fmt::format(
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nSão <b>\n\n</parameter>\n"
        "<parameter=days>\n{}\n</parameter>\n{}</function>\n</tool_call>",
        days, rest);
  };
  EXPECT_TRUE(accepts(*grammar, call("3", "")));
  EXPECT_TRUE(accepts(*grammar, call("3", "<parameter=unit>\ncelsius\n</parameter>\n")));
  EXPECT_FALSE(accepts(*grammar, call("three", "")));
  EXPECT_FALSE(accepts(*grammar, call("3", "<parameter=unit>\nkelvin\n</parameter>\n")));
  EXPECT_FALSE(accepts(*grammar, call("3", "<parameter=zone>\nUTC\n</parameter>\n")));
}

TEST(ToolGrammar, TheParserReadsWhatTheGrammarAllows) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.required = true, rules.parallel = false;
  const auto grammar = tools(rules);
  int ended = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const std::string text = draw(*grammar, seed, 400);
    if (!text.ends_with("</tool_call>")) continue;
    ++ended;
    Qwen35Parser parser(*ToolSchemas::parse(kTools));
    std::vector<AnswerEvent> events;
    parser.push(text, events);
    parser.finish(false, events);
    EXPECT_EQ(parser.calls(), 1U) << text;
    std::string arguments;
    for (const AnswerEvent& event : events) {
      EXPECT_NE(event.kind, AnswerEvent::Kind::kText) << text;
      if (event.kind == AnswerEvent::Kind::kToolArguments) arguments += event.text;
    }
    EXPECT_FALSE(nlohmann::json::parse(arguments, nullptr, false).is_discarded()) << text;
  }
  EXPECT_GT(ended, 5);
}

TEST(ToolGrammar, HermesCallsAreJson) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.required = true, rules.format = &kHermesFormat;
  const auto grammar = tools(rules);
  EXPECT_TRUE(accepts(*grammar,
                      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\", "
                      "\"days\": 2}}\n</tool_call>"));
  EXPECT_FALSE(
      accepts(*grammar, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>"));
}

TEST(ToolGrammar, TheFormIsTheTemplates) {
  const std::string_view names[] = {"qwen3_5", "hermes", "qwen3_5 without a grammar of calls"};
  const auto chosen = [&](std::string_view source) { return &choose_chat_format(names, source); };
  EXPECT_EQ(chosen("x '<tool_call>\\n<function=' y"), &kQwen35Format);
  EXPECT_EQ(chosen("x <tool_call>\n<function= y"), &kQwen35Format);
  EXPECT_EQ(chosen("<tool_call>\n{\"name\": tool_call.name}"), &kHermesFormat);
  EXPECT_EQ(chosen("<|tool_call>call:"), &kQwen35FormatWithoutGrammar);
  ToolCallRules rules = qwen_rules();
  rules.tools_json = kTools, rules.format = &kQwen35FormatWithoutGrammar;
  EXPECT_EQ(compiler().tool_calls(rules).error().code, Code::kUnsupported);
}

TEST(ToolGrammar, AReferenceInASchemaIsFollowed) {
  ToolCallRules rules = qwen_rules();
  rules.required = true;
  rules.tools_json = R"([{"function": {"name": "f", "parameters": {"type": "object",
      "$defs": {"P": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
      "additionalProperties": false}}, "properties": {"p": {"$ref": "#/$defs/P"}}, "required": ["p"]}}}])";
  const auto grammar = tools(rules);
  const auto call = [](std::string_view p) {
    return fmt::format(
        "<tool_call>\n<function=f>\n<parameter=p>\n{}\n</parameter>\n</function>\n</tool_call>", p);
  };
  EXPECT_TRUE(accepts(*grammar, call("{\"x\": 1}")));
  EXPECT_FALSE(accepts(*grammar, call("{\"y\": 1}")));
}

/// True if a required call of `f` with this text between the parameters' tags is allowed.
bool allowed(const std::string& parameters, const std::string& inside, bool strict = false) {
  ToolCallRules rules = qwen_rules();
  rules.required = true, rules.parallel = false;
  rules.tools_json = fmt::format(R"([{{"name": "f", "parameters": {}, "strict": {}}}])", parameters, strict);
  return accepts(*tools(rules), "<tool_call>\n<function=f>\n" + inside + "</function>\n</tool_call>");
}

std::string given(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}

TEST(ToolGrammar, AParameterIsWhatItsSchemaComesTo) {
  struct Row {
    const char* schema;
    const char* right;
    const char* wrong;
  };
  for (const Row& row : {
           Row{R"({"$ref": "#/$defs/U"})", "C", "K"},
           {R"({"allOf": [{"$ref": "#/$defs/U"}]})", "F", "K"},
           {R"({"anyOf": [{"$ref": "#/$defs/U"}, {"type": "null"}]})", "null", "K"},
           {R"({"oneOf": [{"const": 7}, {"const": "x"}]})", "7", "8"},
           {R"({"enum": [1, 2.5, null]})", "2.5", "x"},
           {R"({"$ref": "#/$defs/P"})", "{\"x\": 1}", "1"},
           {R"({"allOf": [{"$ref": "#/$defs/P"}], "description": "d"})", "{\"x\": 9}", "{\"x\": 10}"},
           {R"({"$ref": "#/properties/b"})", "5", "five"},
           {R"({"$ref": "#/$defs/a~1b%25"})", "true", "x"},
           {R"({"type": "string", "pattern": "^[0-9]{5}$"})", "01234", "0123"},
           {R"({"type": "string", "pattern": "^(?:a|b$)|c$"})", "xc", "bx"},
           {R"x({"type": "string", "pattern": "(^$|^[a-z]{2}$)"})x", "ab", "abc"},
           {R"({"type": "string", "pattern": "^((^a)|[$^]z)$"})", "^z", "ab"},
           {R"({"type": "string", "minLength": 2, "maxLength": 3})", "ab", "abcd"},
           {R"({"enum": ["a\u007fb", "\u007f"]})",
            "a\x7f"
            "b",
            "ab"},
           {R"({"type": "object", "properties": {"": {"const": 1}}, "required": [""]})", R"({"": 1, "a": 2})",
            R"({"": 1, "": 2})"},
           {R"({"type": "object", "properties": {"": {"const": 1}, "b": {"const": 2}}})",
            R"({"b": 2, "a": 2})", R"({"b": 2, "": 2})"},
           {R"({"type": "object", "propertyNames": {"enum": ["", "b"]}, "minProperties": 1})", R"({"": 1})",
            R"({"a": 1})"},
           {R"({"type": "string", "format": "date"})", "2026-02-28", "2026-13-01"},
           {R"({"type": ["string", "integer"], "enum": ["00123"]})", "00123", "123"},
           {R"({"type": "array", "items": {"enum": ["x"]}, "minItems": 2, "maxItems": 2})", "[\"x\", \"x\"]",
            "[\"x\"]"},
           {R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": false, "minItems": 1})",
            "[1]", "[1, 2]"},
           {R"({"type": "object", "additionalProperties": {"type": "integer"}})", "{\"k\": 1}",
            "{\"k\": \"a\"}"},
           {R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2})",
            "{\"a\": 1, \"b\": 2}", "{\"a\": 1, \"a\": 2}"},
           {R"({"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308})",
            "-1.5", "1e400"},
           {R"({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5})", "0.5", "0"},
           {R"({"type": "number", "minimum": -0.5, "exclusiveMaximum": 0})", "-0.25", "-0"},
           {R"({"type": "number", "exclusiveMinimum": 3, "exclusiveMaximum": 3.5})", "3.25", "3"},
           {R"({"enum": ["a</parameter>", "ok"]})", "ok", "a"},
           {R"({"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}]})", "{\"x\": 1}",
            "{\"x\": 1, \"y\": 2}"},
       }) {
    const std::string parameters = fmt::format(
        R"({{"properties": {{"a": {}, "b": {{"type": "integer"}}}}, "required": ["a"], "$defs": {{
        "U": {{"type": "string", "enum": ["C", "F"]}}, "a/b%": {{"type": "boolean"}}, "P": {{"type": "object",
        "properties": {{"x": {{"type": "integer", "minimum": 0, "maximum": 9}}}}, "required": ["x"]}}}}}})",
        row.schema);
    EXPECT_TRUE(allowed(parameters, given("a", row.right))) << row.schema;
    EXPECT_FALSE(allowed(parameters, given("a", row.wrong))) << row.schema;
    EXPECT_FALSE(allowed(parameters, "")) << row.schema;
    EXPECT_TRUE(allowed(parameters, given("a", row.right), true)) << "strict: " << row.schema;
  }
}

TEST(ToolGrammar, AnAnchorInTheMiddleOfAPatternIsNamed) {
  ToolCallRules rules = qwen_rules();
  rules.required = true;
  const std::string_view tool = R"([{{"name": "f", "strict": {}, "parameters": {{"properties": {{"p": {{
      "type": "string", "pattern": "a(^b|c$)?d"}}}}, "required": ["p"]}}}}])";
  rules.tools_json = fmt::format(fmt::runtime(tool), true);
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("the pattern 'a(^b|c$)?d'"), std::string::npos);
  rules.tools_json = fmt::format(fmt::runtime(tool), false);
  EXPECT_TRUE(
      accepts(*tools(rules), "<tool_call>\n<function=f>\n" + given("p", "x") + "</function>\n</tool_call>"));
}

TEST(ToolGrammar, ParametersMayBeAReferenceOrAUnion) {
  const std::string reference = R"({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object",
    "properties": {"n": {"type": "integer"}}, "required": ["n"]}}})";
  EXPECT_TRUE(allowed(reference, given("n", "1")));
  EXPECT_FALSE(allowed(reference, ""));
  const std::string either = R"({"anyOf": [
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    {"type": "object", "properties": {"s": {"enum": ["x"]}}, "required": ["s"]}]})";
  EXPECT_TRUE(allowed(either, given("n", "1")));
  EXPECT_TRUE(allowed(either, given("s", "x")));
  EXPECT_FALSE(allowed(either, given("n", "1") + given("s", "x")));
  const std::string tree =
      R"({"type": "object", "properties": {"l": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["l"]})";
  EXPECT_TRUE(allowed(tree, given("l", "{\"l\": {\"l\": null}}")));
  EXPECT_FALSE(allowed(tree, given("l", "{\"l\": {}}")));
}

TEST(ToolGrammar, WhatStrictCannotKeepIsRefusedByName) {
  const auto said = [](const std::string& schema, bool strict) {
    ToolCallRules rules = qwen_rules();
    rules.required = true;
    rules.tools_json = fmt::format(
        R"([{{"name": "f", "parameters": {{"properties": {{"a": {}}}}}, "strict": {}}}])", schema, strict);
    const auto compiled = compiler().tool_calls(rules);
    return compiled.ok() ? std::string() : compiled.error().message;
  };
  for (const auto& [schema, word] : {
           std::pair{R"({"type": "array", "uniqueItems": true})", "uniqueItems"},
           {R"({"type": "string", "pattern": "^(?=a)b"})", "pattern"},
           {R"({"type": "string", "format": "isbn"})", "isbn"},
           {R"({"oneOf": [{"type": "integer"}, {"minimum": 1}]})", "oneOf"},
       }) {
    EXPECT_NE(said(schema, true).find(word), std::string::npos) << said(schema, true);
    EXPECT_NE(said(schema, true).find("'f'"), std::string::npos);
    EXPECT_EQ(said(schema, false), "") << schema;
  }
  EXPECT_NE(said(R"({"$ref": "#/$defs/none"})", true).find("#/$defs/none"), std::string::npos);
  for (const bool strict : {false, true}) {
    EXPECT_NE(said(R"({"$dynamicRef": "#x"})", strict).find("$dynamicRef"), std::string::npos);
    EXPECT_EQ(said(R"({"$id": "x", "type": "string"})", strict), "");
  }
}

TEST(ToolGrammar, AReferenceThatLeadsNowhereAllowsAnythingUnlessStrict) {
  const std::string lost = R"({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"},
    "per": {"$ref": "#/$defs/Unit"}, "list": {"type": "array", "items": {"$ref": "other.json"}}}})";
  EXPECT_TRUE(allowed(lost, given("n", "1") + given("per", "day")));
  EXPECT_TRUE(allowed(lost, given("n", "1") + given("list", "[{\"a\": 1}, \"b\"]")));
  EXPECT_FALSE(allowed(lost, given("n", "x")));
  ToolCallRules rules = qwen_rules();
  rules.required = true, rules.format = &kHermesFormat;
  rules.tools_json = fmt::format(R"([{{"name": "f", "parameters": {}}}])", lost);
  EXPECT_TRUE(accepts(*tools(rules),
                      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1, \"per\": "
                      "{\"a\": [1]}}}\n</tool_call>"));
}

TEST(ToolGrammar, HundredsOfToolsOfAServerMakeOneGrammar) {
  constexpr size_t kCount = 300;
  std::string many = "[";
  for (size_t i = 0; i < kCount; ++i) {
    many += fmt::format(R"({}{{"name": "tool_{}", "parameters": {{"type": "object", "properties": {{
        "path": {{"type": "string"}}, "mode": {{"enum": ["read", "write"]}}, "filter": {{"anyOf": [
        {{"type": "object", "properties": {{"by": {{"type": "string"}}, "x": {{}}}}}}, {{"type": "null"}}]}},
        "limit{}": {{"type": "integer", "maximum": {}}}}}, "required": ["path"]}}}})",
                        i == 0 ? "" : ",", i, i % 3, i);
  }
  for (const ChatFormat* format : {&kQwen35Format, &kHermesFormat}) {
    ToolCallRules rules = qwen_rules();
    rules.required = true, rules.format = format, rules.tools_json = many + "]";
    const auto grammar = tools(rules);
    const auto call = [&](int tool, int limit) {
      if (format == &kHermesFormat)
        return fmt::format(
            "<tool_call>\n{{\"name\": \"tool_{}\", \"arguments\": {{\"path\": \"a\", \"limit{}\": {}}}}}\n"
            "</tool_call>",
            tool, tool % 3, limit);
      return fmt::format(
          "<tool_call>\n<function=tool_{}>\n<parameter=path>\na\n</parameter>\n<parameter=limit{}>\n{}\n"
          "</parameter>\n</function>\n</tool_call>",
          tool, tool % 3, limit);
    };
    for (const int tool : {0, 7, 299}) {
      EXPECT_TRUE(accepts(*grammar, call(tool, tool))) << tool;
      EXPECT_FALSE(accepts(*grammar, call(tool, tool + 1))) << tool << ": each keeps its own bounds";
    }
    EXPECT_FALSE(accepts(*grammar, call(300, 1)));
  }
}

TEST(ToolGrammar, RulesHaveALimitBeforeTheyAreShared) {
  using Json = nlohmann::ordered_json;
  ToolCallRules rules = qwen_rules();
  Json tools = Json::array(), properties = Json::object();
  for (int i = 0; i < 20; ++i)
    properties[fmt::format("p{}", i)] = {{"enum", {std::string(30'000, 'x') + std::to_string(i)}}};
  for (int i = 0; i < 8; ++i) {
    tools.push_back(
        {{"name", fmt::format("t{}", i)}, {"parameters", {{"type", "object"}, {"properties", properties}}}});
  }
  rules.tools_json = tools.dump();
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("bytes of rules"), std::string::npos);
}

TEST(ToolGrammar, ASchemaThatCannotBeCompiledFreesNoOtherTool) {
  const std::string good =
      R"({"type": "object", "properties": {"n": {"enum": ["x", "y"]}}, "required": ["n"]})";
  const auto call = [](const std::string& name, const std::string& arguments) {
    return fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>", name, arguments);
  };
  for (const char* bad :
       {R"({"type": "string", "minLength": 1000000000})", R"({"type": "integer", "multipleOf": 99999999})",
        R"({"type": "string", "allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]})"}) {
    ToolCallRules rules = qwen_rules();
    rules.on_sight = true, rules.format = &kHermesFormat;
    rules.tools_json = fmt::format(
        R"([{{"name": "good", "parameters": {0}}}, {{"name": "bad", "parameters": {{"type": "object",
        "properties": {{"a": {1}}}, "required": ["a"]}}}}, {{"name": "too", "parameters": {0}}}])",
        good, bad);
    const auto grammar = tools(rules);
    for (const char* name : {"good", "too"}) {
      EXPECT_TRUE(accepts(*grammar, call(name, R"({"n": "x"})"))) << bad;
      EXPECT_FALSE(accepts(*grammar, call(name, R"({"n": "z"})"))) << bad;
      EXPECT_FALSE(accepts(*grammar, call(name, "{}"))) << bad;
    }
  }
}

TEST(ToolGrammar, ANumberWhoseBoundsAreTooLargeToKeepStillFitsADouble) {
  const std::string far = R"({"type": "object", "properties": {"n": {"type": "number", "minimum": 1e300}}})";
  EXPECT_TRUE(allowed(far, given("n", "2E200")));
  EXPECT_FALSE(allowed(far, given("n", "2E5948739867163370")));
}

TEST(ToolGrammar, BadToolsAreNamed) {
  ToolCallRules rules = qwen_rules();
  rules.tools_json = "{}";
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("array"), std::string::npos);
  rules.tools_json = kTools, rules.allowed = {"nothing"};
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("'nothing'"), std::string::npos);
  rules.allowed.clear();
  rules.tools_json = R"([{"function": {"name": "a>b"}}])";
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("a>b"), std::string::npos);
  std::string many = "[";
  for (size_t i = 0; i <= kMaxToolsOffered; ++i)
    many += fmt::format(R"({}{{"name": "t{}"}})", i == 0 ? "" : ",", i);
  rules.tools_json = many + "]";
  EXPECT_NE(refusal(compiler().tool_calls(rules)).find("513 tools"), std::string::npos);
}

}  // namespace
}  // namespace ft::tool_grammar_test
