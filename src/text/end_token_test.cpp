#include "text/end_token.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace ft::end_token_test {
namespace {

class EndToken : public ::testing::Test {
 protected:
  EndToken() : folder(::testing::TempDir() + "end_token_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder);
  }
  ~EndToken() override { std::filesystem::remove_all(folder); }
  void write(const char* name, const std::string& text) { std::ofstream(folder + "/" + name) << text; }
  std::optional<std::int32_t> found() {
    const auto tokenizer = Tokenizer::load("assets/qwen3.5-tiny");
    EXPECT_TRUE(tokenizer.ok());
    return end_token_of(folder, *tokenizer);
  }
  std::string folder;
};

TEST_F(EndToken, IsTheOneThatTheTokenizersConfigurationNames) {
  const auto tokenizer = Tokenizer::load("assets/qwen3.5-tiny");
  ASSERT_TRUE(tokenizer.ok());
  const auto end = tokenizer->id_of("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_EQ(end_token_of("assets/qwen3.5-tiny", *tokenizer), end);
  write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>", "lstrip": false}})");
  EXPECT_EQ(found(), end);
  write("tokenizer_config.json", "\xEF\xBB\xBF{\"eos_token\": \"<|im_end|>\"}");
  EXPECT_EQ(found(), end) << "a byte order mark";
}

TEST_F(EndToken, MayBeInTheMapOfSpecialTokens) {
  write("special_tokens_map.json", R"({"eos_token": "<|im_end|>"})");
  EXPECT_TRUE(found());
  write("tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_TRUE(found()) << "null names none";
}

TEST_F(EndToken, IsNoneWhereNoFileNamesATokenOfTheVocabulary) {
  EXPECT_FALSE(found());
  for (const char* text : {"", "[]", "not JSON", R"({"eos_token": 5})", R"({"eos_token": "<no such token>"})",
                           R"({"eos_token": {"content": 1}})"}) {
    write("tokenizer_config.json", text);
    EXPECT_FALSE(found()) << text;
  }
}

TEST_F(EndToken, TheTemplatesEndOfATurnIsOneToo) {
  const auto tokenizer = Tokenizer::load("assets/qwen3.5-tiny");
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<std::int32_t> ends = turn_ends_in("{{ m.content }}<|im_end|>", *tokenizer);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0], tokenizer->id_of("<|im_end|>"));
  EXPECT_TRUE(turn_ends_in("{{ m.content }}<end_of_turn>", *tokenizer).empty()) << "not in the vocabulary";
  EXPECT_TRUE(turn_ends_in("{{ m.content }}", *tokenizer).empty());
}

}  // namespace
}  // namespace ft::end_token_test
