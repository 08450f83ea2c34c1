#include "drafters/recall.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace ft::recall_test {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens counted(std::int32_t first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens recalled(const RecallRing& ring, const Tokens& text, std::size_t most = 8) {
  Tokens out;
  ring.recall(text, out, most);
  return out;
}

TEST(RecallRing, ContinuesAsAnEarlierTextDid) {
  RecallRing ring(1024);
  ring.learn(counted(100, 40));
  EXPECT_EQ(recalled(ring, {1, 2, 110, 111, 112, 113}, 3), (Tokens{114, 115, 116}));
  EXPECT_TRUE(recalled(ring, {110, 111, 112}).empty()) << "too short";
  EXPECT_TRUE(recalled(ring, {111, 110, 112, 113}).empty());
  EXPECT_EQ(recalled(ring, {136, 137, 138, 139}), Tokens()) << "the text ended there";
}

TEST(RecallRing, TheLongestMatchSpeaksAloneAndMostVotesWin) {
  RecallRing ring(1024);
  ring.learn(Tokens{1, 2, 3, 4, 50, 51});
  ring.learn(Tokens{1, 2, 3, 4, 60, 61});
  ring.learn(Tokens{1, 2, 3, 4, 60, 61});
  ring.learn(Tokens{9, 1, 2, 3, 4, 70, 71});
  EXPECT_EQ(recalled(ring, {8, 1, 2, 3, 4}, 2), (Tokens{60, 61}));
  EXPECT_EQ(recalled(ring, {9, 1, 2, 3, 4}, 2), (Tokens{70, 71}));
}

TEST(RecallRing, ADraftEndsWhereEarlierTextsDisagree) {
  RecallRing ring(1024);
  for (std::int32_t i = 0; i < 8; ++i) ring.learn(Tokens{1, 2, 3, 4, 5, 100 + i, 200});
  EXPECT_EQ(recalled(ring, {1, 2, 3, 4}), (Tokens{5}));
}

TEST(RecallRing, TextsDoNotRunIntoEachOther) {
  RecallRing ring(1024);
  ring.learn(Tokens{1, 2, 3, 4});
  ring.learn(Tokens{5, 6, 7, 8});
  EXPECT_TRUE(recalled(ring, {1, 2, 3, 4}).empty());
}

TEST(RecallRing, WhatItKnowsIsNotStoredAgainAndTheOldestGoesFirst) {
  RecallRing ring(256);
  const Tokens kept = counted(1000, 120);
  ring.learn(kept);
  for (int i = 0; i < 50; ++i) ring.learn(kept);  // a conversation repeats its past in every request
  EXPECT_EQ(recalled(ring, {1010, 1011, 1012, 1013}, 2), (Tokens{1014, 1015}));
  ring.learn(counted(5000, 200));
  ring.learn(counted(6000, 60));
  EXPECT_TRUE(recalled(ring, {1010, 1011, 1012, 1013}).empty());
  EXPECT_EQ(recalled(ring, {6010, 6011, 6012, 6013}, 1), (Tokens{6014}));
}

/// For any learnt texts, each draft followed the same kGram tokens in one of them.
TEST(RecallRing, OffersOnlyWhatFollowedBefore) {
  std::mt19937 random(4);
  RecallRing ring(512);
  Tokens all;
  for (int text = 0; text < 200; ++text) {
    Tokens tokens;
    for (std::size_t i = 0; i < 5 + random() % 150; ++i)
      tokens.push_back(static_cast<std::int32_t>(random() % 5));
    ring.learn(tokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
    all.push_back(-1);
    Tokens gram(tokens.begin(), tokens.begin() + RecallRing::kGram);
    const Tokens drafts = recalled(ring, gram, 1);
    if (drafts.empty()) continue;
    gram.push_back(drafts[0]);
    EXPECT_NE(std::search(all.begin(), all.end(), gram.begin(), gram.end()), all.end());
  }
}

class RecallDrafterTest : public testing::Test {
 protected:
  int offered(RecallDrafter& drafter, const Tokens& tokens, std::uint64_t owner) {
    DraftSlot slot;
    slot.tokens = tokens;
    slot.owner = owner;
    slot.drafts = buffer_;
    EXPECT_TRUE(drafter.open(0, 0).ok());
    return drafter.plan(slot);
  }
  std::array<std::int32_t, kMaxDraftTokens> buffer_{};
};

TEST_F(RecallDrafterTest, OneUsersTextNeverDraftsForAnothers) {
  RecallDrafter drafter(1, 1 << 22);
  drafter.learn(counted(1, 50), 1);
  EXPECT_GT(offered(drafter, {10, 11, 12, 13}, 1), 0);
  EXPECT_EQ(offered(drafter, {10, 11, 12, 13}, 2), 0);
}

TEST_F(RecallDrafterTest, TheUserWhoWasAwayLongestIsForgottenFirst) {
  RecallDrafter drafter(1, 1 << 22);
  for (std::uint64_t owner = 1; owner <= 8; ++owner) drafter.learn(counted(1, 50), owner);
  EXPECT_GT(offered(drafter, {10, 11, 12, 13}, 1), 0);
  drafter.learn(counted(1, 50), 9);
  EXPECT_GT(offered(drafter, {10, 11, 12, 13}, 1), 0);
  EXPECT_EQ(offered(drafter, {10, 11, 12, 13}, 2), 0);
}

TEST_F(RecallDrafterTest, WithoutMemoryNothingIsLearnt) {
  RecallDrafter drafter(1, 0);
  drafter.learn(counted(1, 50), 1);
  EXPECT_EQ(offered(drafter, {10, 11, 12, 13}, 1), 0);
}

}  // namespace
}  // namespace ft::recall_test
