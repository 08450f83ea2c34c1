#include "cli/args/api_keys.h"

#include <gtest/gtest.h>

#include "cli/args/command.h"
#include "cli/commands/serving.h"

namespace ft::cli::api_keys_test {
namespace {

using Keys = std::vector<std::string>;

std::string refusal(std::string_view text) {
  const Result<Keys> keys = parse_keys(text, "keys.txt");
  return keys.ok() ? "" : keys.error().message;
}

/// The error of `serve` for these sources of flags; empty: success.
std::string refusal_of_serve(const Typed& typed, const std::map<std::string, std::string>& environment,
                             const std::vector<Setting>& settings) {
  ServeOptions choice;
  Command command;
  command.name = "serve";
  ModelOptions model;
  add_serve_flags(command.flags, choice, model);
  const Environment read = [&](const std::string& name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  const Status status = resolve(command, typed, read, settings, "c.toml");
  return status.ok() ? "" : status.error().message;
}

TEST(ApiKeys, AnEmptyKeyIsRefusedFromEverySource) {
  const std::string why = "the key is empty; give a key, or omit the flag";
  EXPECT_EQ(refusal_of_serve({{"api-key", {""}}}, {}, {}), "--api-key: " + why);
  EXPECT_EQ(refusal_of_serve({{"api-key", {"secret", ""}}}, {}, {}), "--api-key: " + why);
  EXPECT_EQ(refusal_of_serve({}, {{"FORETOKEN_API_KEY", ""}}, {}), "FORETOKEN_API_KEY: " + why);
  EXPECT_EQ(refusal_of_serve({}, {}, {{"serve", "api-key", {"secret", ""}, 3}}),
            "c.toml line 3: api-key: " + why);
  EXPECT_EQ(refusal_of_serve({{"api-key", {"secret"}}}, {{"FORETOKEN_API_KEY", ""}}, {}), "");
}

TEST(ApiKeys, AnEmptyNameOfAKeyFileIsRefusedFromEverySource) {
  const std::string why = "the file name is empty; give a file, or omit the flag";
  EXPECT_EQ(refusal_of_serve({{"api-key-file", {""}}}, {}, {}), "--api-key-file: " + why);
  EXPECT_EQ(refusal_of_serve({}, {{"FORETOKEN_API_KEY_FILE", ""}}, {}), "FORETOKEN_API_KEY_FILE: " + why);
}

TEST(ApiKeys, AnEmptyVariableOfAnotherFlagIsStillNone) {
  EXPECT_EQ(refusal_of_serve({}, {{"FORETOKEN_PORT", ""}, {"FORETOKEN_CORS", ""}}, {}), "");
}

TEST(ApiKeys, WhatNoHeaderCanCarryIsNoKey) {
  for (const char* key : {"a b", " a", "a ", "a\tb", "a\nb", "\x7f", "k\xC3\xA9y"}) {
    EXPECT_FALSE(check_key(key).ok()) << key;
  }
  EXPECT_FALSE(check_key(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(check_key(std::string(kMaxKeyBytes + 1, 'k')).ok());
  EXPECT_TRUE(check_key(std::string(kMaxKeyBytes, 'k')).ok());
  EXPECT_TRUE(check_key("sk-~!\"#Az09").ok());
}

TEST(ApiKeys, AMessageShowsNoKey) {
  EXPECT_EQ(refusal_of_serve({{"api-key", {"hush hush"}}}, {}, {}).find("hush"), std::string::npos);
  EXPECT_EQ(refusal("hush hush").find("hush"), std::string::npos);
}

TEST(ApiKeys, AFileMayHaveAByteOrderMarkCommentsBlanksAndBothEndsOfLines) {
  const Result<Keys> keys =
      parse_keys("\xEF\xBB\xBF# for alice\r\nfirst\r\n\r\n  second\t\n\t\n  # off\nthi#rd", "keys.txt");
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  EXPECT_EQ(*keys, (Keys{"first", "second", "thi#rd"}));
}

TEST(ApiKeys, AFileWithoutAKeyIsRefused) {
  for (const char* text : {"", "\n\n", "\xEF\xBB\xBF", "  \t\r\n", "# nothing\n"}) {
    EXPECT_EQ(refusal(text), "keys.txt has no key; write one key per line, or omit the flag") << text;
  }
}

TEST(ApiKeys, AWrongLineIsNamed) {
  EXPECT_EQ(refusal("good\n\nkey # whose\n"),
            "keys.txt line 3: the key's character 4 is a blank, a control character or not ASCII; use "
            "visible ASCII characters only");
  EXPECT_EQ(refusal("one\rtwo\n").rfind("keys.txt line 1: the key's character 4", 0), 0U);
  EXPECT_EQ(refusal(std::string_view("\xFF\xFEk\0", 4)).rfind("keys.txt line 1: the key's character 1", 0),
            0U);
}

}  // namespace
}  // namespace ft::cli::api_keys_test
