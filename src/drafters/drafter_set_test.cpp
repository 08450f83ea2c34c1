#include "drafters/drafter_set.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "drafters/synthetic.h"

namespace ft::drafter_set_test {
namespace {

/// Takes the place of the MTP head: drafts 900, 901, ... and records its calls.
class Recorder final : public Drafter {
 public:
  std::string_view name() const override { return "recorder"; }
  Status open(int slot, std::int64_t) override {
    opened.insert(slot);
    return {};
  }
  void close(int slot) override { opened.erase(slot); }
  Status observe(int, std::span<const std::int32_t> tokens, bool) override {
    if (fails) return Error{Code::kExhausted, "it fails"};
    observed += static_cast<int>(tokens.size());
    return {};
  }
  int plan(const DraftSlot&) override { return available; }
  int draft_cost(int depth) const override { return depth; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t>) override {
    proposals += 1;
    for (DraftSlot* slot : slots) {
      asked.insert(slot->id);
      for (int i = 0; i < slot->depth; ++i) slot->drafts[static_cast<std::size_t>(i)] = 900 + i;
      slot->drafted = slot->depth;
    }
    return {};
  }

  std::set<int> opened, asked;
  int available = 3, observed = 0, proposals = 0;
  bool fails = false;
};

class DrafterSetTest : public testing::Test {
 protected:
  DrafterSetTest() {
    head_.set_number(0), other_.set_number(1), set_.set_number(2);
    EXPECT_TRUE(set_.open(0, 0).ok());
    EXPECT_TRUE(set_.open(1, 0).ok());
  }
  Recorder head_, other_;
  DrafterSet set_{{&head_, &other_}, 2};
};

TEST_F(DrafterSetTest, EachMemberSeesEveryCommittedRowAndIsClosed) {
  EXPECT_EQ(set_.name(), "recorder+recorder");
  EXPECT_EQ(other_.opened, (std::set<int>{0, 1}));
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  ASSERT_TRUE(set_.observe(1, tokens, false).ok());
  EXPECT_EQ(head_.observed, 3);
  EXPECT_EQ(other_.observed, 3);
  set_.close(1);
  EXPECT_EQ(head_.opened, (std::set<int>{0}));
}

TEST_F(DrafterSetTest, AMemberThatFailsLeavesItsSlotAndTheOthersStay) {
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  head_.fails = true;
  ASSERT_TRUE(set_.observe(0, tokens, false).ok());
  head_.fails = false;
  EXPECT_EQ(head_.opened, (std::set<int>{1})) << "it is closed for that slot alone";
  ASSERT_EQ(set_.members(0).size(), 1U);
  EXPECT_EQ(set_.members(0).front(), &other_);
  EXPECT_EQ(set_.members(1).size(), 2U);
  other_.fails = true;
  EXPECT_FALSE(set_.observe(0, tokens, false).ok()) << "nobody is left";
}

TEST(RoundRobin, MembersTakeTurnsOfTwoRounds) {
  Recorder one, two;
  DrafterSet round_robin({&one, &two}, 1, true);
  ASSERT_TRUE(round_robin.open(0, 0).ok());
  std::vector<Drafter*> turns;
  for (int round = 0; round < 6; ++round) {
    ASSERT_EQ(round_robin.members(0).size(), 1U);
    turns.push_back(round_robin.members(0).front());
  }
  EXPECT_NE(std::ranges::count(turns, &one), 0);
  EXPECT_NE(std::ranges::count(turns, &two), 0);
}

class SyntheticDrafterTest : public testing::Test {
 protected:
  /// Drafts after the first `known` tokens of 0, 1, 2, ...; the recorded run.
  std::vector<std::int32_t> drafts(SyntheticDrafter& drafter, int known, int depth, bool rejection = false) {
    std::vector<std::int32_t> tokens = recorded(known);
    DraftSlot slot;
    slot.tokens = tokens;
    slot.depth = depth;
    slot.drafts = buffer_;
    slot.rejection = rejection;
    slot.proposal = &proposal_;
    DraftSlot* pointer = &slot;
    EXPECT_TRUE(drafter.propose({&pointer, 1}, buffer_).ok());
    return {buffer_.begin(), buffer_.begin() + slot.drafted};
  }
  static std::vector<std::int32_t> recorded(int count) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(i);
    return tokens;
  }
  std::array<std::int32_t, kMaxDraftTokens> buffer_{};
  std::array<Distribution, kMaxDraftTokens> proposal_;
};

TEST_F(SyntheticDrafterTest, IsRightAsOftenAsItsScheduleSays) {
  const std::vector<double> schedule = {1.0, 0.9, 0.5, 0.1, 0.0};
  constexpr int kPositions = 4000;
  SyntheticDrafter drafter(nullptr, schedule, 11);
  drafter.record(recorded(kPositions + 10));
  std::vector<int> right(schedule.size());
  for (int known = 1; known <= kPositions; ++known) {
    const auto got = drafts(drafter, known, 5);
    ASSERT_EQ(got.size(), schedule.size());
    for (std::size_t i = 0; i < got.size(); ++i) right[i] += got[i] == known + static_cast<int>(i) ? 1 : 0;
  }
  EXPECT_EQ(right.front(), kPositions);
  EXPECT_EQ(right.back(), 0);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NEAR(right[i] / double{kPositions}, schedule[i], 0.03) << i;
}

TEST_F(SyntheticDrafterTest, SpoilsTheSameDraftsForTheSameSeedWhateverTheDepth) {
  SyntheticDrafter one(nullptr, {0.5, 0.5, 0.5, 0.5}, 3), same(nullptr, {0.5, 0.5, 0.5, 0.5}, 3);
  SyntheticDrafter other(nullptr, {0.5, 0.5, 0.5, 0.5}, 4);
  for (SyntheticDrafter* drafter : {&one, &same, &other}) drafter->record(recorded(200));
  int different = 0;
  for (int known = 1; known < 150; ++known) {
    const auto deep = drafts(one, known, 4);
    const auto flat = drafts(same, known, 2);
    EXPECT_TRUE(std::equal(flat.begin(), flat.end(), deep.begin()));
    different += drafts(other, known, 4) != deep ? 1 : 0;
  }
  EXPECT_GT(different, 50);
}

TEST_F(SyntheticDrafterTest, OffersNoMoreThanWasRecordedOrScheduled) {
  SyntheticDrafter drafter(nullptr, {1, 1, 1}, 1);
  drafter.record(recorded(10));
  EXPECT_EQ(drafts(drafter, 8, 8), (std::vector<std::int32_t>{8, 9}));
  EXPECT_EQ(drafts(drafter, 2, 8), (std::vector<std::int32_t>{2, 3, 4}));
  EXPECT_TRUE(drafts(drafter, 10, 8).empty());
  EXPECT_TRUE(drafts(drafter, 12, 8).empty());
}

TEST_F(SyntheticDrafterTest, LetsItsInnerDrafterWorkAndOverwritesItsDrafts) {
  Recorder inner;
  SyntheticDrafter drafter(&inner, {1, 1}, 1);
  drafter.record(recorded(10));
  EXPECT_EQ(drafts(drafter, 4, 2, true), (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(inner.proposals, 1);
  EXPECT_EQ(drafter.draft_cost(3), 3);
  EXPECT_EQ(proposal_[1].entries, (std::vector<std::pair<std::int32_t, float>>{{5, 1.0F}}));
}

}  // namespace
}  // namespace ft::drafter_set_test
