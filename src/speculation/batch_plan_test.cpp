#include "speculation/batch_plan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "speculation/simulated_drafting.h"

namespace ft::batch_plan_test {
namespace {

DraftProspect prospect(const Drafter& drafter, double rate, int most = 6) {
  DraftProspect found{&drafter, most, {}};
  double chain = 1;
  for (double& reached : found.reached) reached = chain *= rate;
  return found;
}

struct Planned {
  BatchPlan plan;
  std::vector<int> depths;
  std::vector<const Drafter*> drafters;
};

Planned plan_of(const CostModel& costs, const std::vector<BatchSlot>& slots) {
  Planned planned{{}, std::vector<int>(slots.size()), std::vector<const Drafter*>(slots.size())};
  planned.plan = plan_batch(costs, slots, {}, planned.depths, planned.drafters);
  return planned;
}

double pace_of(const CostModel& costs, const std::vector<BatchSlot>& slots, const std::vector<int>& depths) {
  double tokens = 0, steps = 0;
  int rows = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    rows += 1 + depths[i], tokens += 1;
    for (int d = 0; d < depths[i]; ++d) tokens += slots[i].any.reached[static_cast<std::size_t>(d)];
    if (depths[i] > 0) steps = std::max(steps, costs.draft_steps(*slots[i].any.drafter, depths[i]));
  }
  return tokens / costs.round(rows, steps, static_cast<int>(slots.size()));
}

TEST(BatchPlan, IsWithinThreePercentOfTheBestOfAllCombinations) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < 60; ++round) {
    const CostModel costs = costs_of(0.3 * unit(random), 0.4 * unit(random));
    std::vector<BatchSlot> slots(3);
    for (BatchSlot& slot : slots) slot.any = prospect(kPasses, unit(random));
    double best = 0;
    std::vector<int> depths(3);
    for (depths[0] = 0; depths[0] <= 6; ++depths[0]) {
      for (depths[1] = 0; depths[1] <= 6; ++depths[1]) {
        for (depths[2] = 0; depths[2] <= 6; ++depths[2]) best = std::max(best, pace_of(costs, slots, depths));
      }
    }
    const Planned planned = plan_of(costs, slots);
    EXPECT_NEAR(planned.plan.pace(), pace_of(costs, slots, planned.depths), 1e-9);
    EXPECT_GE(planned.plan.pace(), 0.97 * best) << round;
  }
}

TEST(BatchPlan, APassThatNoSlotCouldPayAloneIsSharedByAll) {
  const CostModel costs = costs_of(0.01, 0.2);  // 0.9 of a token more in 32 is not worth 0.2 steps
  const std::vector<BatchSlot> slots(32, {prospect(kPasses, 0.9), {}, -1, 0});
  for (const int depth : plan_of(costs, slots).depths) EXPECT_GT(depth, 0);
}

TEST(BatchPlan, OnlySlotsWhoseDraftsAreRightDraft) {
  const CostModel costs = costs_of(0.05, 0.05);
  std::vector<BatchSlot> slots(8);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].any = prospect(kPasses, i % 2 == 0 ? 0.95 : 0.03);
  const Planned planned = plan_of(costs, slots);
  for (std::size_t i = 0; i < slots.size(); ++i) EXPECT_EQ(planned.depths[i] > 0, i % 2 == 0) << i;
}

TEST(BatchPlan, TakesDraftsThatAreThereAlreadyWhereNoPassPays) {
  const CostModel costs = costs_of(0.05, 5);
  const std::vector<BatchSlot> slots(4, {prospect(kPasses, 0.95), prospect(kFree, 0.8), -1, 0});
  const Planned planned = plan_of(costs, slots);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    EXPECT_GT(planned.depths[i], 0);
    EXPECT_EQ(planned.drafters[i], &kFree);
  }
}

TEST(BatchPlan, ARequestsDepthIsKept) {
  const CostModel hopeless = costs_of(2, 2);
  std::vector<BatchSlot> slots(3, {prospect(kPasses, 0.2), {}, -1, 0});
  slots[1].fixed = 4;
  EXPECT_EQ(plan_of(hopeless, slots).depths, (std::vector<int>{0, 4, 0}));
  slots[1].any.max_tokens = 2;
  EXPECT_EQ(plan_of(hopeless, slots).depths, (std::vector<int>{0, 2, 0}));
}

TEST(BatchPlan, NothingToDraftIsAPlainRound) {
  const Planned planned = plan_of(costs_of(0.1, 0.1), std::vector<BatchSlot>(5));
  EXPECT_EQ(planned.plan.rows, 5);
  EXPECT_EQ(planned.plan.draft_steps, 0);
  EXPECT_EQ(planned.depths, std::vector<int>(5));
}

}  // namespace
}  // namespace ft::batch_plan_test
