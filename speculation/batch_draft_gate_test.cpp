#include "speculation/batch_draft_gate.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

/// Tokens a millisecond over `rounds` when a drafted round of 8 slots takes `drafted_ms` for 14 tokens, a
/// plain one 4 ms for 8.
double speed(BatchDraftGate& choice, double drafted_ms, int rounds) {
  double tokens = 0, ms = 0;
  for (int i = 0; i < rounds; ++i) {
    const bool drafts = choice.drafts(8);
    const double took = drafts ? drafted_ms : 4;
    choice.observe(8, drafts, drafts ? 14 : 8, took);
    tokens += drafts ? 14 : 8, ms += took;
  }
  return tokens / ms;
}

TEST(BatchDraftGate, OneSlotMayAlwaysDraft) {
  BatchDraftGate choice;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(choice.drafts(1));
    choice.observe(1, true, 1, 100);
  }
}

TEST(BatchDraftGate, DraftsThatLoseAreLeftOutAndCostLittle) {
  BatchDraftGate choice;
  EXPECT_GT(speed(choice, 10, 2000), 0.97 * 8 / 4);  // 14 tokens in 10 ms lose against 8 in 4
}

TEST(BatchDraftGate, DraftsThatWinAreKept) {
  BatchDraftGate choice;
  EXPECT_GT(speed(choice, 5, 2000), 0.97 * 14 / 5);
}

TEST(BatchDraftGate, DraftsThatBringNothingAreLeftOut) {
  BatchDraftGate choice;
  speed(choice, 7, 2000);  // 14 tokens in 7 ms, as 8 in 4
  int drafted = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool drafts = choice.drafts(8);
    drafted += drafts ? 1 : 0;
    choice.observe(8, drafts, drafts ? 14 : 8, drafts ? 7 : 4);
  }
  EXPECT_LT(drafted, 50);
}

TEST(BatchDraftGate, SeesThatTheBetterWayHasChanged) {
  BatchDraftGate choice;
  speed(choice, 10, 400);
  speed(choice, 5, 1200);  // time to notice
  EXPECT_GT(speed(choice, 5, 1000), 0.95 * 14 / 5);
  speed(choice, 10, 400);
  EXPECT_GT(speed(choice, 10, 1000), 0.95 * 8 / 4);
}

TEST(BatchDraftGate, BatchesOfOtherSizesAreOtherMatters) {
  BatchDraftGate choice;
  speed(choice, 10, 400);
  bool tried = false;
  for (int i = 0; i < 10 && !tried; ++i) tried = choice.drafts(3);
  EXPECT_TRUE(tried) << "nothing is known of three";
  EXPECT_NO_FATAL_FAILURE(choice.observe(1000, true, 5, 1));
}

}  // namespace
}  // namespace ft
