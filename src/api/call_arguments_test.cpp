#include "api/call_arguments.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::api::call_arguments_test {
namespace {

/// `given` is JSON text of the member.
std::string read(const std::string& given) {
  const Json value = Json::parse(given);
  const Result<Json> arguments = read_arguments(&value, "here");
  return arguments.ok() ? arguments->dump() : arguments.error().field;
}

TEST(CallArguments, EveryFormOfNothingIsAnEmptyObject) {
  for (const char* nothing : {"null", "[]", "{}", R"("")", R"(" \n")", R"("null")", R"("[]")", R"(" [ ] ")",
                              R"("{}")", R"("\"\"")"}) {
    EXPECT_EQ(read(nothing), "{}") << nothing;
  }
  EXPECT_EQ(read_arguments(nullptr, "here")->dump(), "{}");
}

TEST(CallArguments, AnObjectAndItsTextAreTheSame) {
  EXPECT_EQ(read(R"({"b": 1, "a": 2})"), R"({"b":1,"a":2})");
  EXPECT_EQ(read(R"("{\"b\": 1, \"a\": 2}")"), R"({"b":1,"a":2})");
  EXPECT_EQ(read(Json(Json(R"({"b": 1})").dump()).dump()), R"({"b":1})") << "encoded twice";
}

TEST(CallArguments, ATextThatIsNotAnObjectIsKept) {
  EXPECT_EQ(read(R"("{\"city\": \"Os")"), R"({"arguments":"{\"city\": \"Os"})");
  EXPECT_EQ(read(R"("[1]")"), R"({"arguments":"[1]"})");
  EXPECT_EQ(read(R"("ls -l")"), R"({"arguments":"ls -l"})");
  EXPECT_EQ(read(Json(std::string(200, '[')).dump()), Json({{"arguments", std::string(200, '[')}}).dump());
}

TEST(CallArguments, OtherValuesAreNamed) {
  EXPECT_EQ(read("5"), "here");
  EXPECT_EQ(read("[1]"), "here");
  EXPECT_EQ(read("true"), "here");
}

}  // namespace
}  // namespace ft::api::call_arguments_test
