// The resolver of JSON schemas: the result of each combination, and the keywords reported as broken or
// unenforced.
#include "text/schema_graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/schema_places.h"

namespace ft::schema_graph_test {
namespace {

using Json = nlohmann::ordered_json;

SchemaGraph graph(const char* schema) { return SchemaGraph::build(Json::parse(schema), false); }

bool fits(const char* schema, const char* value) {
  const SchemaGraph built = graph(schema);
  EXPECT_TRUE(built.broken().empty()) << schema << ": " << built.broken().front();
  return built.fits(Json::parse(value), built.root());
}

std::string unenforced(const char* schema) {
  std::string all;
  const SchemaGraph built = graph(schema);
  for (const std::string& one : built.unenforced()) all += (all.empty() ? "" : ", ") + one;
  return all;
}

TEST(SchemaGraph, AReferenceLeadsAnywhereInTheSchema) {
  const char* inside =
      R"({"properties": {"left": {"type": "integer"}, "right": {"$ref": "#/properties/left"}},
    "required": ["right"]})";
  EXPECT_TRUE(fits(inside, R"({"right": 1})"));
  EXPECT_FALSE(fits(inside, R"({"right": "a"})"));
  EXPECT_FALSE(fits(inside, "{}"));
  const char* tree = R"({"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}},
    "required": ["n"], "additionalProperties": false})";
  EXPECT_TRUE(fits(tree, R"({"n": 1, "next": {"n": 2}})"));
  EXPECT_FALSE(fits(tree, R"({"n": 1, "next": {}})"));
}

TEST(SchemaGraph, PointersAreUnescaped) {
  const Json root = Json::parse(R"({"a/b": {"m~n": [1, {"ü": 2}]}, "50%": 3, "": 4})");
  EXPECT_EQ(*schema_at(root, "/a~1b/m~0n/1/%C3%BC"), 2);
  EXPECT_EQ(*schema_at(root, "/50%25"), 3);
  EXPECT_EQ(*schema_at(root, "/"), 4);
  EXPECT_EQ(schema_at(root, ""), &root);
  for (const char* wrong : {"/none", "/a~1b/m~0n/2", "/a~1b/m~0n/x", "a", "/50%/x"}) {
    EXPECT_EQ(schema_at(root, wrong), nullptr) << wrong;
  }
}

TEST(SchemaGraph, AReferenceThatCannotBeFollowedIsNamed) {
  for (const char* wrong :
       {R"({"$ref": "#/$defs/none"})", R"({"$ref": "other.json#/a"})", R"({"$ref": "#name"})"}) {
    const SchemaGraph built = SchemaGraph::build(Json::parse(wrong), false);
    EXPECT_TRUE(built.broken().empty()) << wrong;
    ASSERT_EQ(built.lost().size(), 1U) << wrong;
    EXPECT_NE(built.lost()[0].find(Json::parse(wrong)["$ref"].get<std::string>()), std::string::npos);
    EXPECT_TRUE(built.fits(Json::parse(R"([1, "a"])"), built.root())) << wrong;  // anything
  }
  EXPECT_NE(graph(R"({"$dynamicRef": "#a"})").broken()[0].find("$dynamicRef"), std::string::npos);
  EXPECT_TRUE(fits(
      R"({"$id": "https://a/b", "$defs": {"n": {"type": "null"}}, "$ref": "https://a/b#/$defs/n"})", "null"));
}

TEST(SchemaGraph, NamesAndAddressesAreFollowed) {
  EXPECT_TRUE(fits(R"({"$ref": "#n", "$defs": {"N": {"$anchor": "n", "type": "null"}}})", "null"));
  EXPECT_FALSE(fits(R"({"$ref": "#n", "$defs": {"N": {"$id": "#n", "type": "null"}}})", "1"));
  // As TypeBox writes a recursive type.
  const char* tree = R"({"properties": {"t": {"$id": "T0", "type": "object", "required": ["kids"],
    "properties": {"kids": {"type": "array", "items": {"$ref": "T0"}}}}}})";
  EXPECT_TRUE(graph(tree).lost().empty());
  EXPECT_TRUE(fits(tree, R"({"t": {"kids": [{"kids": []}]}})"));
  EXPECT_FALSE(fits(tree, R"({"t": {"kids": [{"kids": 1}]}})"));
  const char* bundle = R"({"$id": "https://a.org/x/tool.json", "$ref": "unit.json#/$defs/u", "$defs": {
    "a": {"$id": "https://a.org/x/unit.json", "$defs": {"u": {"$ref": "#/$defs/v"}, "v": {"type": "null"}}},
    "v": {"type": "string"}}})";
  EXPECT_TRUE(fits(bundle, "null")) << "inside of a part with an address, # is that part";
  EXPECT_FALSE(fits(bundle, R"("a")"));
  EXPECT_EQ(graph(R"({"$ref": "other.json"})").lost().size(), 1U);
}

TEST(SchemaGraph, EveryMemberOfAllOfHolds) {
  const char* both = R"({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"y": {"type": "string"}}}],
    "$defs": {"a": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}}})";
  EXPECT_TRUE(fits(both, R"({"x": 1, "y": "a"})"));
  EXPECT_FALSE(fits(both, R"({"x": 1, "y": 2})"));
  EXPECT_FALSE(fits(both, R"({"y": "a"})"));
  EXPECT_TRUE(fits(R"({"allOf": [{"minimum": 2}, {"type": "integer", "minimum": 5}]})", "5"));
  EXPECT_FALSE(fits(R"({"allOf": [{"minimum": 2}, {"type": "integer", "minimum": 5}]})", "4"));
  EXPECT_FALSE(fits(R"({"allOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})", "1"));
  EXPECT_EQ(graph(R"({"allOf": [{"type": "string"}, {"type": "null"}]})").broken().size(), 1U)
      << "no value at all";
}

TEST(SchemaGraph, UnionsAndTypes) {
  EXPECT_TRUE(fits(R"({"anyOf": [{"type": "integer"}, {"type": "null"}]})", "null"));
  EXPECT_TRUE(fits(R"({"type": ["string", "integer"]})", "1"));
  EXPECT_FALSE(fits(R"({"type": ["string", "integer"]})", "1.5"));
  EXPECT_TRUE(fits(R"({"type": "string", "nullable": true})", "null"));
  EXPECT_TRUE(fits(
      R"({"allOf": [{"$ref": "#/$defs/a"}], "nullable": true, "$defs": {"a": {"type": "object"}}})", "null"));
  EXPECT_TRUE(fits(R"({"enum": [1, "1", null, {"a": [1]}]})", R"({"a": [1]})"));
  EXPECT_FALSE(fits(R"({"enum": [1, "2"], "type": "string"})", "1"));
  EXPECT_FALSE(fits(R"({"const": true})", "1"));
  EXPECT_TRUE(fits(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "null"));
  EXPECT_FALSE(fits(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "1"))
      << "the whole again adds nothing";
}

TEST(SchemaGraph, ArraysAndObjectsAreBounded) {
  const char* pair =
      R"({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false, "minItems": 2})";
  EXPECT_TRUE(fits(pair, R"([1, "a"])"));
  EXPECT_FALSE(fits(pair, R"([1, "a", 2])"));
  EXPECT_FALSE(fits(pair, R"([1])"));
  const char* older = R"({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}})";
  EXPECT_TRUE(fits(older, "[1, null, null]"));
  EXPECT_FALSE(fits(older, "[null]"));
  const char* map = R"({"additionalProperties": {"type": "integer"}, "minProperties": 2})";
  EXPECT_TRUE(fits(map, R"({"a": 1, "b": 2})"));
  EXPECT_FALSE(fits(map, R"({"a": 1})"));
  EXPECT_FALSE(fits(map, R"({"a": 1, "b": "x"})"));
  const char* patterns = R"({"properties": {"x-a": {"minimum": 3}}, "additionalProperties": false,
    "patternProperties": {"^x-": {"type": "integer"}}})";
  EXPECT_TRUE(fits(patterns, R"({"x-a": 4, "x-b": 1})"));
  EXPECT_FALSE(fits(patterns, R"({"x-a": 1})"));
  EXPECT_FALSE(fits(R"({"properties": {"a": true}, "propertyNames": {"enum": ["a", "b"]}})", R"({"c": 1})"));
}

TEST(SchemaGraph, NamesOfPropertiesFollowAnySchema) {
  EXPECT_FALSE(fits(R"({"propertyNames": {"maxLength": 2}, "type": "object"})", R"({"abc": 1})"));
  EXPECT_TRUE(fits(R"({"propertyNames": {"maxLength": 2}, "type": "object"})", R"({"aü": 1})"));
  const char* behind = R"({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/map"}], "$defs": {
    "map": {"type": "object", "additionalProperties": {"type": "integer"},
      "propertyNames": {"$ref": "#/$defs/name"}},
    "name": {"anyOf": [{"const": "a"}, {"allOf": [{"minLength": 3}, {"type": "string"}]}]}}})";
  EXPECT_TRUE(fits(behind, R"({"a": 1, "bcd": 2})"));
  EXPECT_FALSE(fits(behind, R"({"b": 1})"));
  EXPECT_EQ(unenforced(behind), "");
  EXPECT_EQ(unenforced(R"({"type": "object", "propertyNames": {"format": "ipv9"}})"),
            "");  // the grammar names it
  EXPECT_TRUE(fits(R"({"type": "object", "propertyNames": false})", "{}"));
  EXPECT_FALSE(fits(R"({"type": "object", "propertyNames": false})", R"({"a": 1})"));
}

TEST(SchemaGraph, MembersOfOneOfAreToldApartByWhatOneRequires) {
  const char* either =
      R"({"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"},
    "limit": {"type": "integer"}}, "oneOf": [{"required": ["id"]}, {"required": ["name"]}]})";
  EXPECT_EQ(unenforced(either), "");
  EXPECT_TRUE(fits(either, R"({"id": 1, "limit": 2})"));
  EXPECT_TRUE(fits(either, R"({"name": "a"})"));
  EXPECT_FALSE(fits(either, R"({"id": 1, "name": "a"})"));
  EXPECT_FALSE(fits(either, R"({"limit": 2})"));
  const char* referred =
      R"({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}], "$defs": {
    "a": {"type": "object", "required": ["x", "y"]}, "b": {"type": "object", "required": ["x", "z"]}}})";
  EXPECT_EQ(unenforced(referred), "");
  EXPECT_TRUE(fits(referred, R"({"x": 1, "y": 2})"));
  EXPECT_FALSE(fits(referred, R"({"x": 1, "y": 2, "z": 3})"));
  EXPECT_EQ(unenforced(R"({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["a", "b"]}]})"),
            "oneOf with members that allow the same value");
}

/// `count` texts of `one(i)` in a list.
template <class One>
std::string list_of(int count, One one) {
  std::string all;
  for (int i = 0; i < count; ++i) all += (i == 0 ? "" : ", ") + one(i);
  return "[" + all + "]";
}

TEST(SchemaGraph, TheWorkOfMatchesIsBounded) {
  // Each step of this match makes a new state of thousands of parts.
  const std::string one =
      fmt::format(R"({{"enum": ["{}"], "pattern": "^([a-z]{{1,90}}){{90}}b|a$"}})", std::string(3000, 'a'));
  const SchemaGraph slow = graph(one.c_str());
  EXPECT_FALSE(slow.unenforced().empty());
  std::string properties;
  for (int i = 0; i < 400; ++i) {
    properties += fmt::format(R"x({}"p{}": {{"enum": ["{}"], "pattern": "^([a-z]{{1,30}}){{30}}(b|x{})$"}})x",
                              i == 0 ? "" : ", ", i, std::string(300, 'a'), i);
  }
  const SchemaGraph many = graph(("{\"properties\": {" + properties + "}}").c_str());
  ASSERT_FALSE(many.broken().empty());
  EXPECT_NE(many.broken().front().find("too much work"), std::string::npos);
}

TEST(SchemaGraph, SchemasOfOneRequestShareTheirWork) {
  std::string values;
  for (int i = 0; i < 900; ++i) values += fmt::format(R"({}"v{}")", i == 0 ? "" : ", ", i);
  const Json schema = Json::parse(R"({"enum": [)" + values + R"(], "pattern": "^v[0-9]+$"})");
  SchemaWork work;
  int usable = 0;
  while (usable < 2000 && SchemaGraph::build(schema, false, &work).broken().empty()) ++usable;
  EXPECT_GT(usable, 3);
  EXPECT_LT(usable, 2000);
  EXPECT_TRUE(SchemaGraph::build(schema, false).broken().empty()) << "alone it is usable";
}

TEST(SchemaGraph, WorkIsBounded) {
  const auto required = [](int i) { return fmt::format(R"({{"required": ["p{}"]}})", i); };
  const auto unions = [&](const std::string& last) {
    return list_of(12, [&](int i) {
      const auto one = [&](int j) { return i == 0 && !last.empty() ? last : required((10 * i) + j); };
      return R"({"anyOf": )" + list_of(8, one) + "}";
    });
  };
  const auto broken = [](const std::string& schema) {
    const SchemaGraph built = SchemaGraph::build(Json::parse(schema), false);
    return built.broken().empty() ? std::string() : built.broken().front();
  };
  EXPECT_NE(broken(R"({"allOf": )" + unions("") + "}").find("256 alternatives"), std::string::npos);
  EXPECT_NE(broken(R"({"allOf": )" + unions("false") + "}").find("20000 choices"), std::string::npos);
  // A recursive literal in a recursive union, and two recursive schemas that are compared.
  std::string deep = "1";
  for (int i = 0; i < 60; ++i) deep = R"({"a": )" + deep + "}";
  const auto tree = [](const char* name) {
    return fmt::format(R"({{"required": ["a"], "properties": {{"a": {{"$ref": "#/$defs/t"}}, "{}": true}}}})",
                       name);
  };
  EXPECT_NE(broken(fmt::format(R"({{"allOf": [{{"$ref": "#/$defs/t"}}, {{"const": {}}}], "$defs": {{
    "t": {{"anyOf": [{}, {}, {}]}}}}}})",
                               deep, tree("x"), tree("y"), tree("z"))),
            "");
  const auto self = [](const char* name) {
    std::string properties, names;
    for (char c = 'a'; c < 'l'; ++c) {
      properties += fmt::format(R"({}"{}": {{"$ref": "#/$defs/{}"}})", c == 'a' ? "" : ", ", c, name);
      names += fmt::format(R"({}"{}")", c == 'a' ? "" : ", ", c);
    }
    return fmt::format(R"("{}": {{"type": ["object", "null"], "properties": {{{}}}, "required": [{}]}})",
                       name, properties, names);
  };
  const std::string both = fmt::format(R"({{"oneOf": [{{"$ref": "#/$defs/A"}}, {{"$ref": "#/$defs/B"}}],
    "$defs": {{{}, {}}}}})",
                                       self("A"), self("B"));
  EXPECT_EQ(unenforced(both.c_str()), "oneOf with members that allow the same value");
  // Many names: each is looked up, not searched for.
  const std::string many = list_of(9'000, [](int i) { return fmt::format(R"("p{}")", i); });
  std::string properties;
  for (int i = 0; i < 9'000; ++i) properties += fmt::format(R"({}"p{}": true)", i == 0 ? "" : ", ", i);
  EXPECT_EQ(broken(fmt::format(R"({{"properties": {{{}}}, "required": {}}})", properties, many)), "");
  const std::string values = list_of(40'000, [](int i) { return fmt::format(R"("value {}")", i); });
  EXPECT_EQ(broken(fmt::format(R"({{"allOf": [{{"enum": {}}}, {{"type": "string"}}]}})", values)), "");
  EXPECT_NE(broken(fmt::format(R"({{"allOf": [{{"enum": {}}}, {}]}})", values,
                               R"({"anyOf": [{"minLength": 2}, {"maxLength": 90}]})"))
                .find("properties and values"),
            std::string::npos);
  const std::string objects = list_of(5'000, [](int i) { return fmt::format(R"({{"p{}": {}}})", i % 7, i); });
  EXPECT_NE(broken(fmt::format(R"({{"properties": {{{}}}, "enum": {}}})", properties, objects)), "");
  const std::string alternatives = list_of(60, required);
  EXPECT_NE(broken(fmt::format(R"({{"properties": {{{}}}, "anyOf": {}}})", properties, alternatives))
                .find("properties and values"),
            std::string::npos);
  EXPECT_NE(
      broken(fmt::format(R"({{"properties": {{{}}}, "patternProperties": {{"^x": true}}}})", properties))
          .find("1000 names"),
      std::string::npos);
}

TEST(SchemaGraph, ListedNamesAreProperties) {
  const char* patterned = R"({"type": "object", "propertyNames": {"enum": ["x-a", "b"]},
    "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})";
  EXPECT_TRUE(fits(patterned, R"({"x-a": 1, "b": true})"));
  EXPECT_FALSE(fits(patterned, R"({"x-a": true})"));
  EXPECT_FALSE(fits(patterned, R"({"c": true})"));
  EXPECT_FALSE(graph(R"({"type": "object", "required": ["abc"], "propertyNames": {"maxLength": 2}})")
                   .broken()
                   .empty());
}

TEST(SchemaGraph, LimitsWithoutANumberAllowNothing) {
  const auto nothing = [](const std::string& schema) { return graph(schema.c_str()).allows_nothing(); };
  for (const char* limits : {R"("minimum": 5, "maximum": 3)", R"("exclusiveMinimum": 3, "maximum": 3)",
                             R"("multipleOf": 7, "minimum": 8, "maximum": 13)",
                             R"("multipleOf": 7, "minimum": 7, "exclusiveMinimum": 7,
           "exclusiveMaximum": 14)",
                             R"("exclusiveMinimum": 0, "exclusiveMaximum": 5e-324)"}) {
    for (const char* type : {"integer", "number"})
      EXPECT_TRUE(nothing(fmt::format(R"({{"type": "{}", {}}})", type, limits))) << type << limits;
  }
  EXPECT_TRUE(nothing(R"({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4})"));
  EXPECT_TRUE(nothing(R"({"type": "integer", "minimum": 0.2, "maximum": 0.8})"));
  for (const char* limits :
       {R"("minimum": 3, "maximum": 3)", R"("exclusiveMinimum": 3, "exclusiveMaximum": 5)",
        R"("multipleOf": 0.01, "minimum": 0.07, "maximum": 0.07)",
        R"("multipleOf": 7, "minimum": 8, "maximum": 14)", R"("minimum": -1.7e308, "maximum": 1.7e308)",
        R"("minimum": 9007199254740993, "maximum": 9007199254740993)"}) {
    EXPECT_FALSE(nothing(fmt::format(R"({{"type": "number", {}}})", limits))) << limits;
  }
  EXPECT_FALSE(nothing(R"({"type": "number", "exclusiveMinimum": 3, "exclusiveMaximum": 4})"));
}

TEST(SchemaGraph, KeywordsThatStandAloneAreNotForgotten) {
  EXPECT_FALSE(graph(R"({"type": "array", "items": {"$recursiveRef": "#"}})").broken().empty());
  EXPECT_FALSE(
      graph(R"({"type": "array", "items": {"dependentRequired": {"a": ["b"]}}})").unenforced().empty());
}

TEST(SchemaGraph, AnEnumerationIsFilteredByItsPattern) {
  EXPECT_TRUE(fits(R"({"enum": ["ab", "12"], "pattern": "^[0-9]+$", "type": "string"})", R"("12")"));
  EXPECT_FALSE(fits(R"({"enum": ["ab", "12"], "pattern": "^[0-9]+$", "type": "string"})", R"("ab")"));
}

TEST(SchemaGraph, WhatCannotBeEnforcedIsNamed) {
  EXPECT_EQ(unenforced(R"({"type": "array", "uniqueItems": true})"), "uniqueItems");
  EXPECT_EQ(unenforced(R"({"properties": {"a": {"not": {"type": "null"}}}})"), "not");
  EXPECT_EQ(unenforced(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"),
            "oneOf with members that allow the same value");
  EXPECT_EQ(unenforced(R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})"), "");
  EXPECT_EQ(unenforced(R"({"oneOf": [
      {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}]})"),
            "");
}

TEST(SchemaGraph, WhatMultipliesIsBounded) {
  std::string all = R"({"allOf": [)";
  for (int i = 0; i < 20; ++i) {
    all += (i > 0 ? "," : "") + std::string(R"({"anyOf": [{"minLength": 1}, {"maxLength": 3}]})");
  }
  EXPECT_NE(graph((all + "]}").c_str()).broken()[0].find("alternatives"), std::string::npos);
  std::string chain = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 3000; ++i) {
    chain +=
        R"("d)" + std::to_string(i) + R"(": {"items": {"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}},";
  }
  const SchemaGraph deep = graph((chain + R"("d3000": {"type": "null"}}})").c_str());
  EXPECT_TRUE(deep.broken().empty());
  EXPECT_GT(deep.size(), 3000U);
}

}  // namespace
}  // namespace ft::schema_graph_test
