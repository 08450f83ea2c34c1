#include "api/tool_parameters.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::api::tool_parameters_test {
namespace {

std::string regular(const char* parameters) {
  Json function{{"name", "f"}, {"parameters", Json::parse(parameters)}};
  make_parameters_regular(function);
  return function["parameters"].dump();
}

TEST(ToolParameters, KeywordsThatASerializerWroteEmptyAreLeftOut) {
  EXPECT_EQ(regular("[]"), "{}");
  EXPECT_EQ(regular(R"({"type":"object","properties":[],"required":[]})"),
            R"({"type":"object","required":[]})");
  EXPECT_EQ(regular(R"({"type":"object","properties":null,"required":null,"additionalProperties":null})"),
            R"({"type":"object"})");
  EXPECT_EQ(regular(R"({"properties":{"a":{"type":"string","enum":null,"minLength":null,"anyOf":null}}})"),
            R"({"properties":{"a":{"type":"string"}}})");
  EXPECT_EQ(regular(R"({"$defs":[],"allOf":[{"items":{"format":null}}]})"), R"({"allOf":[{"items":{}}]})");
}

TEST(ToolParameters, ValuesAndNamesOfPropertiesStay) {
  const char* values =
      R"({"properties":{"a":{"enum":[null,[]]},"b":{"const":null},"c":{"default":null,"d":1}}})";
  EXPECT_EQ(regular(values), values);
  const char* names =
      R"({"properties":{"const":{"type":"null"},"enum":{"type":"string"},"properties":{"a":1}}})";
  EXPECT_EQ(regular(names), names);
  const char* lists = R"({"prefixItems":[],"required":[],"anyOf":[]})";
  EXPECT_EQ(regular(lists), lists);
}

TEST(ToolParameters, ASchemaThatIsTrueBecomesAnObject) {
  EXPECT_EQ(regular(R"({"properties":{"a":true,"b":{"items":true}},"additionalProperties":true})"),
            R"({"properties":{"a":{},"b":{"items":{}}},"additionalProperties":true})");
  EXPECT_EQ(regular(R"({"anyOf":[true,{"prefixItems":[true,false]}],"unevaluatedProperties":true})"),
            R"({"anyOf":[{},{"prefixItems":[{},false]}],"unevaluatedProperties":true})");
}

TEST(ToolParameters, AFunctionWithoutParametersIsLeftAlone) {
  Json function{{"name", "f"}};
  make_parameters_regular(function);
  EXPECT_EQ(function.dump(), R"({"name":"f"})");
}

}  // namespace
}  // namespace ft::api::tool_parameters_test
