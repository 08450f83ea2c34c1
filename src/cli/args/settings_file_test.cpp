#include "cli/args/settings_file.h"

#include <gtest/gtest.h>

namespace ft::cli::settings_file_test {
namespace {

TEST(SettingsFile, ReadsEveryKindOfValueWithItsLine) {
  const auto settings = parse_settings(
      "threads = 4\nraw = true\n[run]\ntemperature = 0.5\nmax_tokens = 7\n"
      "stop = [\"a\", \"b\"]\n",
      "c.toml");
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  ASSERT_EQ(settings->size(), 5U);
  EXPECT_EQ((*settings)[0].key, "threads");
  EXPECT_EQ((*settings)[0].values, std::vector<std::string>{"4"});
  EXPECT_EQ((*settings)[0].section, "");
  EXPECT_EQ((*settings)[1].values, std::vector<std::string>{"true"});
  EXPECT_EQ((*settings)[2].values, std::vector<std::string>{"0.5"});
  EXPECT_EQ((*settings)[2].section, "run");
  EXPECT_EQ((*settings)[3].key, "max-tokens") << "underscores are read as dashes";
  EXPECT_EQ((*settings)[3].line, 5);
  EXPECT_EQ((*settings)[4].values, (std::vector<std::string>{"a", "b"}));
}

TEST(SettingsFile, BadTomlNamesFileAndLine) {
  const auto settings = parse_settings("threads = 4\nseed = = 3\n", "dir/c.toml");
  ASSERT_FALSE(settings.ok());
  EXPECT_EQ(settings.error().code, Code::kInvalid);
  EXPECT_EQ(settings.error().message.rfind("dir/c.toml line 2: ", 0), 0U) << settings.error().message;
}

TEST(SettingsFile, RefusesWhatNoFlagCanHold) {
  const auto date = parse_settings("a = 1\nseed = 2024-01-01\n", "c.toml");
  ASSERT_FALSE(date.ok());
  EXPECT_EQ(date.error().message,
            "c.toml line 2: seed must be a string, a number, true, false or a list of these");
  const auto deep = parse_settings("[run.inner]\nseed = 1\n", "c.toml");
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().message.find("inner is nested too deep"), std::string::npos) << deep.error().message;
}

TEST(SettingsFile, OnlyAFileThatWasNamedMustExist) {
  const auto missing = read_settings("/nowhere/c.toml", true);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  const auto optional = read_settings("/nowhere/c.toml", false);
  ASSERT_TRUE(optional.ok());
  EXPECT_TRUE(optional->empty());
}

TEST(SettingsFile, AKeyOfManyPartsIsRefusedBeforeItIsParsed) {
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  for (const std::string& text : {deep + " = 1\n", "x = 1\n[" + deep + "]\n", "[[" + deep + "]]\n",
                                  "x = {" + deep + " = 1}\n", "x = {y = \"\"\"a\"\"\"\", " + deep + " = 1}\n",
                                  "x = [[{" + deep + " = 1}]]\n", "'a'" + deep.substr(1) + " = 1\n"}) {
    const auto settings = parse_settings(text, "f");
    ASSERT_FALSE(settings.ok());
    EXPECT_NE(settings.error().message.find("parts"), std::string::npos) << settings.error().message;
  }
}

TEST(SettingsFile, DotsInTextsAndCommentsAreNoParts) {
  const std::string dots(200, '.');
  const auto settings = parse_settings("# " + dots + "\na = \"" + dots + "\\\"" + dots + "\"\nb = '" + dots +
                                           "'\nc = \"\"\"\n" + dots + "\"\n\"\"\"\nd = [1.5, 2.5]\n",
                                       "f");
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->size(), 4U);
}

}  // namespace
}  // namespace ft::cli::settings_file_test
