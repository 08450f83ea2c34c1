#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <random>

#include "base/utf8.h"

namespace ft::detokenizer_test {
namespace {

const Tokenizer& tiny() {
  static const auto loaded = Tokenizer::load("assets/qwen3.5-tiny");
  EXPECT_TRUE(loaded.ok());
  return *loaded;
}

TEST(Detokenizer, HoldsACharacterUntilItsLastByte) {
  const auto ids = tiny().encode("\xF0\x9F\xA6\x89x", false);  // an owl, one token for each byte
  ASSERT_TRUE(ids.ok());
  ASSERT_GE(ids->size(), 3u);
  Detokenizer detokenizer(tiny(), false);
  std::string text;
  for (const int32_t id : *ids) {
    const std::string piece = detokenizer.push(id);
    EXPECT_TRUE(utf8_valid(piece));
    text += piece;
  }
  EXPECT_EQ(text + detokenizer.flush(), "\xF0\x9F\xA6\x89x");
}

TEST(Detokenizer, EndsAnUnfinishedCharacterWithAReplacement) {
  const auto ids = tiny().encode("\xF0\x9F\xA6\x89", false);
  ASSERT_TRUE(ids.ok());
  Detokenizer detokenizer(tiny(), false);
  EXPECT_EQ(detokenizer.push(ids->front()), "");
  EXPECT_EQ(detokenizer.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, SkipsSpecialTokensOnlyWhenAsked) {
  const int32_t end = *tiny().id_of("<|im_end|>");
  EXPECT_EQ(Detokenizer(tiny(), false).push(end), "<|im_end|>");
  EXPECT_EQ(Detokenizer(tiny(), true).push(end), "");
  EXPECT_EQ(Detokenizer(tiny(), true).push(*tiny().id_of("<think>")), "<think>");
  EXPECT_EQ(Detokenizer(tiny(), true).push(1 << 20), "");
}

TEST(Detokenizer, EqualsDecodeForAnyIds) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> ids(random() % 12);
    for (int32_t& id : ids) {  // half are single bytes, so that most characters are broken
      id = static_cast<int32_t>(random() % 2 == 0 ? random() % 256 : random() % 8200);
    }
    const bool skip = random() % 2 == 0;
    Detokenizer detokenizer(tiny(), skip);
    std::string text;
    for (const int32_t id : ids) {
      text += detokenizer.push(id);
      ASSERT_TRUE(utf8_valid(text));
    }
    ASSERT_EQ(text + detokenizer.flush(), tiny().decode(ids, skip));
  }
}

}  // namespace
}  // namespace ft::detokenizer_test
