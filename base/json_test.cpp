#include "base/json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

TEST(Json, KeepsTheOrderOfKeysWhereItsTypeDoes) {
  EXPECT_EQ(write_json(read_json<nlohmann::ordered_json>(R"({"b": 1, "a": [2, "x"]})")),
            R"({"b":1,"a":[2,"x"]})");
  EXPECT_EQ(write_json(read_json<nlohmann::json>(R"({"b": 1, "a": 2})"), 1), "{\n \"a\": 2,\n \"b\": 1\n}");
}

TEST(Json, TextThatIsNotJsonIsDiscarded) {
  for (const char* text : {"", "{", "{} {}", "nul", "{\"a\": \"\xff\"}"})
    EXPECT_TRUE(read_json<nlohmann::json>(text).is_discarded()) << text;
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(write_json(nlohmann::json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace ft
