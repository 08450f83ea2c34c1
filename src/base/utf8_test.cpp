#include "base/utf8.h"

#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace ft::utf8_test {
namespace {

using namespace std::string_literals;  // NOLINT: literals with NUL bytes

const std::string kFffd = "\xEF\xBF\xBD";

TEST(Utf8, AcceptsEveryLengthAndTheBoundariesOfTheTable) {
  for (const std::string& text : {""s, "plain"s, "\0"s, "\x7F"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s,
                                  "\xED\x9F\xBF"s, "\xEE\x80\x80"s, "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s,
                                  "\xF4\x8F\xBF\xBF"s, "na\xC3\xAFve \xF0\x9F\x98\x80"s}) {
    EXPECT_TRUE(utf8_valid(text)) << ::testing::PrintToString(text);
    EXPECT_EQ(utf8_complete_prefix(text), text.size());
    EXPECT_EQ(utf8_replace_invalid(text), text);
  }
}

TEST(Utf8, RefusesOverlongSurrogateTooLargeAndStrayBytes) {
  for (const std::string& text :
       {"\x80"s, "\xBF"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s, "\xF0\x8F\xBF\xBF"s,
        "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\xFF"s, "\xC3("s, "a\xE2\x82"s}) {
    EXPECT_FALSE(utf8_valid(text)) << ::testing::PrintToString(text);
  }
}

TEST(Utf8, HoldsBackOnlyACharacterThatMayStillBeFinished) {
  EXPECT_EQ(utf8_complete_prefix("ab\xC3"), 2U);
  EXPECT_EQ(utf8_complete_prefix("ab\xE2\x82"), 2U);
  EXPECT_EQ(utf8_complete_prefix("ab\xF0\x9F\x98"), 2U);
  EXPECT_EQ(utf8_complete_prefix("ab\xF0\x8F"), 4U) << "already ill formed: waiting would not help";
  EXPECT_EQ(utf8_complete_prefix("ab\xFF"), 3U);
  EXPECT_EQ(utf8_complete_prefix("\x80\x80\x80\x80"), 4U);
  EXPECT_EQ(utf8_complete_prefix("\xF0\x9F\x98\x80"), 4U);
}

// The expected strings come from Python's bytes.decode("utf-8", "replace").
TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  EXPECT_EQ(utf8_replace_invalid("a\xF0\x9F\x98z"), "a" + kFffd + "z");
  EXPECT_EQ(utf8_replace_invalid("\xE0\x80"), kFffd + kFffd);
  EXPECT_EQ(utf8_replace_invalid("\xED\xA0\x80"), kFffd + kFffd + kFffd);
  EXPECT_EQ(utf8_replace_invalid("\xF1\x80\x80\xE1\x80\xC2"
                                 "b"),
            kFffd + kFffd + kFffd + "b");
}

TEST(Utf8, ArbitraryBytesBecomeValidAndPrefixesNeverSplitACharacter) {
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
  for (int round = 0; round < 2000; ++round) {
    std::string noise;
    for (unsigned i = random() % 12; i > 0; --i) noise += static_cast<char>(random() & 0xFF);
    EXPECT_TRUE(utf8_valid(utf8_replace_invalid(noise)));
    EXPECT_LE(noise.size() - utf8_complete_prefix(noise), 3U);
    std::string text;
    for (int i = 0; i < 4; ++i) text += pieces[random() % pieces.size()];
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_TRUE(utf8_valid(text.substr(0, utf8_complete_prefix(text.substr(0, cut)))));
    }
  }
}

}  // namespace
}  // namespace ft::utf8_test
