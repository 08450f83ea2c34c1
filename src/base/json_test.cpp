#include "base/json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "base/ordered_json.h"

namespace ft::json_test {
namespace {

TEST(Json, KeepsTheOrderOfKeysWhereItsTypeDoes) {
  EXPECT_EQ(write_json(read_json<nlohmann::ordered_json>(R"({"b": 1, "a": [2, "x"]})")),
            R"({"b":1,"a":[2,"x"]})");
  EXPECT_EQ(write_json(read_json<nlohmann::json>(R"({"b": 1, "a": 2})"), 1), "{\n \"a\": 2,\n \"b\": 1\n}");
}

TEST(Json, AKeyThatIsRepeatedKeepsItsPlaceAndItsLastValue) {
  std::string text = "{", expected = "{";
  for (int i = 0; i < 100; ++i) {  // few keys and many are looked up in different ways
    text += "\"k" + std::to_string(i) + "\": [{\"x\": 0, \"x\": 1}], ";
    expected += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":" + (i % 10 == 0 ? "2" : R"([{"x":1}])");
  }
  for (int i = 0; i < 100; i += 10) text += "\"k" + std::to_string(i) + (i < 90 ? "\": 2, " : "\": 2}");
  EXPECT_EQ(write_json(read_json<nlohmann::ordered_json>(text)), expected + "}");
}

TEST(Json, ATreeIsTheSameAsThatOfTheLibrary) {
  for (const char* text : {"1", "-1", "1.5", "1e400", "\"a\\u00e9\"", "[]", "{}", "[[], {}, [{}]]", "null",
                           "true", R"({"a": {"b": {"c": [1, {"d": null}]}}, "e": 18446744073709551615})", "",
                           "[1,", "{\"a\"}", "[1] 2", "\xEF\xBB\xBF[1]"}) {
    const auto own = read_json<nlohmann::ordered_json>(text);
    const auto theirs = nlohmann::ordered_json::parse(text, nullptr, false);
    EXPECT_EQ(own.is_discarded(), theirs.is_discarded()) << text;
    if (!own.is_discarded()) {
      EXPECT_EQ(own.dump(), theirs.dump()) << text;
    }
  }
}

TEST(Json, TheKeysOfAnObjectAreCounted) {
  const char* text = R"([{"a": 1, "b": 2, "a": 3}, {"c": 1, "d": 2}])";
  EXPECT_EQ(read_ordered_json(text, 2).problem, OrderedJson::Problem::kNone) << "each object, each key once";
  const OrderedJson many = read_ordered_json(text, 1);
  EXPECT_EQ(many.problem, OrderedJson::Problem::kKeys);
  EXPECT_TRUE(many.value.is_discarded());
  EXPECT_EQ(read_ordered_json("[1, 1e400]").problem, OrderedJson::Problem::kNumber);
  EXPECT_EQ(read_ordered_json("[1, }").problem, OrderedJson::Problem::kSyntax);
  EXPECT_EQ(read_ordered_json("[1, }").byte, 5u);
}

TEST(Json, TextThatIsNotJsonIsDiscarded) {
  for (const char* text : {"", "{", "{} {}", "nul", "{\"a\": \"\xff\"}"})
    EXPECT_TRUE(read_json<nlohmann::json>(text).is_discarded()) << text;
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(write_json(nlohmann::json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace ft::json_test
