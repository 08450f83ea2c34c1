#include "drafters/ngram.h"

#include <gtest/gtest.h>
#include <random>

namespace ft::ngram_test {
namespace {

/// A slot of a drafter, as the round would show it.
struct View {
  std::array<std::int32_t, kMaxDraftTokens> drafts{};
  std::array<Distribution, kMaxDraftTokens> proposal;
  DraftSlot slot;

  View(int id, std::span<const std::int32_t> tokens, int depth,
       std::span<const std::int32_t> predicted = {}) {
    slot.id = id;
    slot.tokens = tokens;
    slot.predicted = predicted;
    slot.depth = depth;
    slot.drafts = drafts;
    slot.proposal = &proposal;
  }
};

std::vector<std::int32_t> propose(NgramDrafter& drafter, View& view) {
  view.slot.depth = std::min(view.slot.depth, drafter.plan(view.slot));
  DraftSlot* one = &view.slot;
  EXPECT_TRUE(drafter.propose({&one, 1}, {}).ok());
  return {view.drafts.begin(), view.drafts.begin() + view.slot.drafted};
}

std::vector<std::int32_t> guess(const std::vector<std::int32_t>& tokens, int depth,
                                const std::vector<std::int32_t>& predicted = {}) {
  NgramDrafter drafter(1);
  EXPECT_TRUE(drafter.open(0, 0).ok());
  View view(0, tokens, depth, predicted);
  return propose(drafter, view);
}

using Tokens = std::vector<std::int32_t>;

TEST(NgramDrafter, ContinuesAsTheTextWentOnBefore) {
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}, 4), (Tokens{4, 5, 6, 7}));
}

TEST(NgramDrafter, OffersNothingForAShorterMatchOrNone) {
  EXPECT_TRUE(guess({1, 2, 3, 4, 9, 2, 3}, 4).empty());
  EXPECT_TRUE(guess({1, 2, 3, 4, 5, 6}, 4).empty());
  EXPECT_TRUE(guess({1, 2}, 4).empty());
  EXPECT_TRUE(guess({1}, 4).empty());
}

/// The continuation of `drafts`, which another drafter proposed.
Tokens continued(const Tokens& tokens, const Tokens& drafts, int most, const Tokens& predicted = {},
                 int* context_class = nullptr) {
  NgramDrafter drafter(1);
  EXPECT_TRUE(drafter.open(0, 0).ok());
  View view(0, tokens, 0, predicted);
  drafter.plan(view.slot);
  std::ranges::copy(drafts, view.drafts.begin());
  view.slot.drafted = static_cast<int>(drafts.size());
  const Drafter::Continuation found = drafter.continue_drafts(view.slot, most);
  if (context_class != nullptr) *context_class = found.context_class;
  const auto first = view.drafts.begin() + view.slot.drafted;
  return {first, first + found.count};
}

TEST(NgramDrafter, ContinuesDraftsOfAnotherDrafter) {
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2};
  EXPECT_EQ(continued(text, {3, 4}, 3), (Tokens{5, 6, 7}));
  EXPECT_TRUE(continued(text, {3, 5}, 3).empty()) << "no such text";
  EXPECT_EQ(continued({8, 8}, {8}, 3), (Tokens{})) << "drafts are not indexed";
  EXPECT_EQ(continued({1, 2, 9}, {5, 6, 7}, 9, {4, 5, 6, 7, 3, 2}), (Tokens{3, 2})) << "to the predicted end";
  int context_class = -1;
  continued(text, {3, 4, 5, 6, 7, 8}, 3, {}, &context_class);
  EXPECT_EQ(context_class, 1) << "eight tokens match";
}

TEST(NgramDrafter, AContinuationOfDraftsRepeatsThem) {
  EXPECT_EQ(continued({1, 2, 3, 4, 1, 2}, {3}, 6), (Tokens{4, 1, 2, 3, 4, 1}));
}

/// Drafts that were wrong are not found later.
TEST(NgramDrafter, DraftsAreNotKept) {
  NgramDrafter drafter(1);
  ASSERT_TRUE(drafter.open(0, 0).ok());
  Tokens tokens = {1, 2, 3, 4, 5, 1, 2};
  View first(0, tokens, 0);
  drafter.plan(first.slot);
  first.drafts[0] = 3, first.drafts[1] = 9, first.slot.drafted = 2;
  drafter.continue_drafts(first.slot, 4);
  tokens.push_back(3);
  View next(0, tokens, 2);
  EXPECT_EQ(propose(drafter, next), (Tokens{4, 5}));
}

TEST(NgramDrafter, TheLatestOccurrenceWins) {
  EXPECT_EQ(guess({1, 2, 3, 40, 0, 1, 2, 3, 50, 0, 1, 2, 3}, 1), (Tokens{50}));
}

TEST(NgramDrafter, AContinuationThatReachesTheEndGoesOnPeriodically) {
  EXPECT_EQ(guess({7, 8, 9, 7, 8, 9}, 8), (Tokens{7, 8, 9, 7, 8, 9, 7, 8}));
  EXPECT_EQ(guess({5, 5, 5, 5}, 8), (Tokens{5, 5, 5, 5, 5, 5, 5, 5}));
}

TEST(NgramDrafter, FollowsThePredictedTextToItsEndAndNotBeyond) {
  EXPECT_EQ(guess({90, 91, 10, 11, 12}, 8, {9, 10, 11, 12, 13, 14}), (Tokens{13, 14}));
  EXPECT_TRUE(guess({90, 10, 11, 12}, 8, {9, 10, 11, 12}).empty()) << "no token follows the match";
}

TEST(NgramDrafter, TheLongerMatchOfSequenceAndPredictedTextWins) {
  const Tokens tokens = {1, 2, 3, 4, 50, 0, 1, 2, 3, 4};
  EXPECT_EQ(guess(tokens, 1, {2, 3, 4, 60, 61}), (Tokens{50}));
  EXPECT_EQ(guess(tokens, 1, {0, 1, 2, 3, 4, 60, 61}), (Tokens{60}));
}

TEST(NgramDrafter, ASlotForgetsWhenItIsOpenedAgain) {
  NgramDrafter drafter(2);
  const Tokens first = {1, 2, 3, 4, 5, 1, 2, 3};
  const Tokens second = {9, 8, 7, 1, 2, 3};
  for (const int slot : {0, 1}) ASSERT_TRUE(drafter.open(slot, 0).ok());
  View before(0, first, 2);
  EXPECT_EQ(propose(drafter, before), (Tokens{4, 5}));
  View other(1, second, 2);
  EXPECT_TRUE(propose(drafter, other).empty()) << "slots do not see each other";
  drafter.close(0);
  ASSERT_TRUE(drafter.open(0, 0).ok());
  View after(0, second, 2);
  EXPECT_TRUE(propose(drafter, after).empty());
}

TEST(NgramDrafter, ReportsCertainProposalsForTheRatioRule) {
  NgramDrafter drafter(1);
  ASSERT_TRUE(drafter.open(0, 0).ok());
  const Tokens tokens = {1, 2, 3, 4, 5, 1, 2, 3};
  View view(0, tokens, 2);
  view.slot.rejection = true;
  ASSERT_EQ(propose(drafter, view), (Tokens{4, 5}));
  EXPECT_EQ(view.proposal[0].entries, (std::vector<std::pair<std::int32_t, float>>{{4, 1.0F}}));
  EXPECT_EQ(view.proposal[1].entries, (std::vector<std::pair<std::int32_t, float>>{{5, 1.0F}}));
}

/// The obvious search, from the latest place to the first: does it end with the last three tokens, and how
/// long is the match?
struct Found {
  std::size_t end = 0;
  int length = 0;
};
Found search(const Tokens& text, std::size_t last_end, const Tokens& tokens) {
  for (std::size_t end = last_end; end >= NgramDrafter::kMinMatch && end <= text.size(); --end) {
    int length = 0;
    while (length < NgramDrafter::kMaxMatch &&
           static_cast<std::size_t>(length) < std::min(end, tokens.size()) &&
           text[end - 1 - static_cast<std::size_t>(length)] ==
               tokens[tokens.size() - 1 - static_cast<std::size_t>(length)]) {
      ++length;
    }
    if (length >= NgramDrafter::kMinMatch) return {end, length};
  }
  return {};
}

Tokens slow_guess(const Tokens& tokens, int depth, const Tokens& predicted, int& length) {
  const Found own = search(tokens, tokens.size() - 1, tokens);
  const Found told = predicted.empty() ? Found{} : search(predicted, predicted.size() - 1, tokens);
  length = std::max(own.length, told.length);
  Tokens result;
  if (length == 0) return result;
  const bool from_own = own.length > told.length;
  for (int i = 0; i < depth; ++i) {
    const std::size_t at =
        from_own ? own.end + static_cast<std::size_t>(i) : told.end + static_cast<std::size_t>(i);
    if (from_own) {
      result.push_back(tokens[own.end + static_cast<std::size_t>(i) % (tokens.size() - own.end)]);
    } else if (at < predicted.size()) {
      result.push_back(predicted[at]);
    }
  }
  return result;
}

TEST(NgramDrafter, FindsWhatASlowSearchFindsHoweverTheTextGrows) {
  int found = 0, none = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const unsigned letters = 2 + seed % 7;
    const auto text = [&](std::size_t count) {
      Tokens tokens;
      for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(random() % letters));
      return tokens;
    };
    NgramDrafter drafter(1);
    ASSERT_TRUE(drafter.open(0, 0).ok());
    const Tokens predicted = text(random() % 2 == 0 ? 0 : 40);
    Tokens tokens = text(1 + random() % 20);
    for (int round = 0; round < 60; ++round) {
      const int depth = 1 + static_cast<int>(random() % kMaxDraftTokens);
      View view(0, tokens, depth, predicted);
      int length = 0;
      const Tokens expected = slow_guess(tokens, depth, predicted, length);
      ASSERT_EQ(propose(drafter, view), expected) << "seed " << seed << " round " << round;
      ASSERT_EQ(drafter.match_length(0), length);
      (length > 0 ? found : none) += 1;
      const Tokens more = random() % 3 == 0 ? text(1) : expected.empty() ? text(2) : expected;
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(none, 100);
}

}  // namespace
}  // namespace ft::ngram_test
