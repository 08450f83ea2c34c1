#include "sched/recall_file.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>

#include "base/checksum.h"
#include "drafters/recall.h"

namespace ft::recall_file_test {
namespace {

constexpr int kVocabulary = 2000;
const std::string kKey = "model";

std::vector<std::int32_t> counted(std::int32_t first, int count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

int offered(RecallDrafter& drafter, const std::vector<std::int32_t>& text, std::uint64_t owner) {
  std::array<std::int32_t, kMaxDraftTokens> drafts{};
  DraftSlot slot;
  slot.tokens = text, slot.owner = owner, slot.drafts = drafts;
  EXPECT_TRUE(drafter.open(0, 0).ok());
  return drafter.plan(slot);
}

class RecallFileTest : public testing::Test {
 protected:
  RecallFileTest() {
    drafter_.learn(counted(1, 300), 7);
    drafter_.learn(counted(1000, 40), 8);
    bytes_ = recall_file_bytes(drafter_, kKey);
  }
  Status read(const std::string& bytes, const std::string& key = kKey) {
    return read_recall_file(bytes, key, kVocabulary, fresh_);
  }
  /// With a right checksum again.
  static std::string sealed(std::string text) {
    const std::uint64_t sum = checksum(std::as_bytes(std::span(text)));
    text.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
    return text;
  }
  RecallDrafter drafter_{1, 1 << 20}, fresh_{1, 1 << 20};
  std::string bytes_;
};

TEST_F(RecallFileTest, GivesEachUserTheirTextsBack) {
  ASSERT_TRUE(read(bytes_).ok());
  EXPECT_GT(offered(fresh_, {50, 51, 52, 53}, 7), 0);
  EXPECT_EQ(offered(fresh_, {50, 51, 52, 53}, 8), 0) << "the text of another user";
  EXPECT_GT(offered(fresh_, {1010, 1011, 1012, 1013}, 8), 0);
  EXPECT_EQ(recall_file_bytes(fresh_, kKey), bytes_);
}

TEST_F(RecallFileTest, OfAnotherModelIsNotUsed) {
  EXPECT_EQ(read(bytes_, "other").error().code, Code::kNotFound);
  EXPECT_EQ(offered(fresh_, {50, 51, 52, 53}, 7), 0);
}

TEST_F(RecallFileTest, WithAnyByteChangedOrCutIsRefused) {
  for (std::size_t i = 0; i < bytes_.size(); i += 7) {
    std::string damaged = bytes_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    EXPECT_EQ(read(damaged).error().code, Code::kCorrupt) << i;
    EXPECT_FALSE(read(bytes_.substr(0, i)).ok()) << i;
  }
  EXPECT_EQ(offered(fresh_, {50, 51, 52, 53}, 7), 0) << "nothing was taken";
}

TEST_F(RecallFileTest, WithTokensOutsideTheVocabularyIsRefused) {
  RecallDrafter other(1, 1 << 20);
  other.learn(counted(kVocabulary - 5, 40), 1);
  EXPECT_EQ(read(recall_file_bytes(other, kKey)).error().code, Code::kCorrupt);
  EXPECT_EQ(read(sealed("foretoken texts 1 model\nxyz")).error().code, Code::kCorrupt);
  EXPECT_EQ(read(sealed("foretoken texts 1 model")).error().message, "it is damaged");
}

TEST_F(RecallFileTest, IsAsLargeAsTheMemoryAllowsAtMost) {
  for (int i = 0; i < 100; ++i) drafter_.learn(counted(i * 17 % 900, 1000), 7);
  const std::string file = recall_file_bytes(drafter_, kKey);
  EXPECT_LT(file.size(), std::size_t{1} << 20);
  EXPECT_TRUE(read(file).ok());
}

}  // namespace
}  // namespace ft::recall_file_test
