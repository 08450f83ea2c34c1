#include "format/json_text.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "format/model_fixture.h"

namespace ft::format::json_text_test {
namespace {

std::string message_of(const std::string& text, DuplicateKeys duplicates = DuplicateKeys::kRefuse) {
  auto parsed = parse_json(text, "x.json", duplicates);
  return parsed.ok() ? "ok" : parsed.error().message;
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

TEST(JsonText, GivesTheSameDocumentAsTheLibrary) {
  const std::string text =
      R"({"a":[1,-2,3.5,true,false,null,"\u00e9",[],{}],"b":{"c":{"d":[[0]]},"e":18446744073709551615}})";
  auto parsed = parse_json(text, "x", DuplicateKeys::kRefuse);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(**parsed, nlohmann::json::parse(text));
}

TEST(JsonText, AcceptsTheDepthLimitAndRefusesOneMore) {
  EXPECT_EQ(message_of(nested(kMaxJsonDepth)), "ok");
  EXPECT_NE(message_of(nested(kMaxJsonDepth + 1)).find("more than 64 levels"), std::string::npos);
}

TEST(JsonText, ADuplicateKeyIsRefusedOrTheLastWins) {
  EXPECT_NE(message_of(R"({"a":1,"b":{"a":1,"a":2}})").find("the key 'a' twice"), std::string::npos);
  EXPECT_EQ(message_of(R"({"a":{"x":1},"b":{"x":1}})"), "ok");
  auto parsed = parse_json(R"({"a":1,"a":{"b":2}})", "x", DuplicateKeys::kLastWins);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(**parsed, nlohmann::json::parse(R"({"a":{"b":2}})"));
}

TEST(JsonText, SyntaxErrorsNameTheFileAndTheByte) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\":1}x", "nul", "\"\xFF\"", "1e999", "{\"a\"}", "NaN", "'a'"}) {
    auto parsed = parse_json(text, "x.json", DuplicateKeys::kRefuse);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, Code::kCorrupt);
    EXPECT_EQ(parsed.error().message.find("x.json: expected JSON, found a syntax error at byte "), 0U)
        << parsed.error().message;
  }
}

TEST(JsonText, AFileMayHoldTheNumbersThatPythonWrites) {
  const TemporaryFolder folder;
  const auto read = [&](const char* text) { return read_json_object(folder.write("x.json", text)); };
  const auto odd =
      read(R"({"a":NaN,"b":[0.0,Infinity,-Infinity,-1],"c":"NaN \" NaN","d":{"Infinity":"\\"}})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(**odd, nlohmann::json::parse(R"({"a":"NaN","b":[0.0,"Infinity","-Infinity",-1],"c":"NaN \" NaN",
      "d":{"Infinity":"\\"}})"));
  for (const char* text : {R"({"a":nan})", R"({"a":Inf})", R"({"a":-NaN})", R"({"a":NaN1})", R"({"a":1NaN})"})
    EXPECT_FALSE(read(text).ok()) << text;
}

TEST(JsonText, AFileMustHoldAnObject) {
  const TemporaryFolder folder;
  EXPECT_TRUE(read_json_object(folder.write("a", "{}")).ok());
  auto list = read_json_object(folder.write("b", "[1]"));
  ASSERT_FALSE(list.ok());
  EXPECT_NE(list.error().message.find("expected a JSON object, found array"), std::string::npos);
  EXPECT_FALSE(read_json_object(folder.write("c", "")).ok());
}

TEST(JsonText, AFileBeyondTheSizeLimitIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("big", "{}");
  std::filesystem::resize_file(path, kMaxConfigBytes + 1);  // sparse
  auto parsed = read_json_object(path);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message.find("expected at most"), std::string::npos);
}

}  // namespace
}  // namespace ft::format::json_text_test
