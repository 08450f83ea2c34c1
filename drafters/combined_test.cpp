#include "drafters/combined.h"

#include <gtest/gtest.h>
#include <set>

#include "drafters/synthetic.h"

namespace ft {
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
};

/// `match` tokens that occurred before, after tokens that did not.
std::vector<std::int32_t> repeating(int match) {
  std::vector<std::int32_t> tokens = {500};
  for (int i = 0; i < match; ++i) tokens.push_back(i);
  for (int i = 0; i < 10; ++i) tokens.push_back(100 + i);
  tokens.push_back(501);
  for (int i = 0; i < match; ++i) tokens.push_back(i);
  return tokens;
}

class CombinedDrafterTest : public testing::Test {
 protected:
  DraftSlot slot(int id, const std::vector<std::int32_t>& tokens) {
    DraftSlot result;
    result.id = id;
    result.tokens = tokens;
    result.drafts = drafts_[static_cast<std::size_t>(id)];
    return result;
  }
  std::int32_t first_draft(int match) {
    EXPECT_TRUE(combined_.open(0, 0).ok());
    const std::vector<std::int32_t> tokens = repeating(match);
    DraftSlot one = slot(0, tokens);
    one.depth = std::min(2, combined_.plan(one));
    DraftSlot* pointer = &one;
    EXPECT_TRUE(combined_.propose({&pointer, 1}, {}).ok());
    return one.drafted > 0 ? one.drafts[0] : -1;
  }

  Recorder head_;
  NgramDrafter lookup_{2};
  CombinedDrafter combined_{head_, lookup_, 2};
  std::array<std::array<std::int32_t, kMaxDepth>, 2> drafts_{};
};

TEST_F(CombinedDrafterTest, LookupDraftsOnlyWhereItsMatchIsLong) {
  EXPECT_EQ(first_draft(CombinedDrafter::kLongMatch - 1), 900);
  EXPECT_EQ(head_.proposals, 1);
  EXPECT_EQ(first_draft(CombinedDrafter::kLongMatch), 100);
  EXPECT_EQ(head_.proposals, 1) << "the head costs nothing where it is not asked";
}

TEST_F(CombinedDrafterTest, AShortMatchIsBetterThanAHeadThatHasNothing) {
  head_.available = 0;
  EXPECT_EQ(first_draft(NgramDrafter::kMinMatch), 100);
  EXPECT_EQ(first_draft(NgramDrafter::kMinMatch - 1), -1);
}

TEST_F(CombinedDrafterTest, EachSlotOfARoundGoesToItsOwnDrafter) {
  const std::vector<std::int32_t> long_match = repeating(20);
  const std::vector<std::int32_t> short_match = repeating(4);
  ASSERT_TRUE(combined_.open(0, 0).ok());
  ASSERT_TRUE(combined_.open(1, 0).ok());
  DraftSlot a = slot(0, long_match), b = slot(1, short_match);
  a.depth = std::min(3, combined_.plan(a));
  b.depth = std::min(3, combined_.plan(b));
  DraftSlot* both[] = {&a, &b};
  ASSERT_TRUE(combined_.propose(both, {}).ok());
  EXPECT_EQ(head_.asked, (std::set<int>{1}));
  EXPECT_EQ(a.drafts[0], 100);
  EXPECT_EQ(b.drafts[0], 900);
}

TEST_F(CombinedDrafterTest, BothSeeEveryCommittedRowAndBothAreClosed) {
  ASSERT_TRUE(combined_.open(1, 0).ok());
  EXPECT_EQ(head_.opened, (std::set<int>{1}));
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  ASSERT_TRUE(combined_.observe(1, tokens, false).ok());
  EXPECT_EQ(head_.observed, 3);
  combined_.close(1);
  EXPECT_TRUE(head_.opened.empty());
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
  std::array<std::int32_t, kMaxDepth> buffer_{};
  std::array<Distribution, kMaxDraft> proposal_;
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
}  // namespace ft
