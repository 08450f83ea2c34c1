#include "spec/depth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace ft {
namespace {

/// Acceptance as the policy sees it, kept by hand: starts at 0.75, the past weighs 0.95.
struct Seen {
  std::array<double, kMaxDepth> rate{};
  Seen() { rate.fill(0.75); }
  void observe(int drafted, int accepted) {
    for (int i = 0; i < drafted && i <= accepted; ++i) {
      rate[static_cast<std::size_t>(i)] =
          0.95 * rate[static_cast<std::size_t>(i)] + (i < accepted ? 0.05 : 0.0);
    }
  }
  /// Expected tokens for the time of one plain step.
  double pays(const CostModel& costs, int depth, bool free) const {
    double tokens = 1, chain = 1;
    for (int i = 0; i < depth; ++i) tokens += chain *= rate[static_cast<std::size_t>(i)];
    return tokens * costs.verify(1) / (costs.verify(depth + 1) + (free ? 0 : depth * costs.draft()));
  }
};

CostModel costs_of(double row, double draft) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  for (std::size_t i = 1; i < measured.size(); ++i) measured[i] = 1 + row * static_cast<double>(i - 1);
  costs.calibrate(measured, draft);
  return costs;
}

int settled_depth(double acceptance, const CostModel& costs) {
  std::mt19937 random(3);
  DepthPolicy policy;
  int depth = 0;
  for (int round = 0; round < 600; ++round) {
    int accepted = 0;
    while (accepted < kMaxDepth && std::uniform_real_distribution(0.0, 1.0)(random) < acceptance) ++accepted;
    policy.observe(kMaxDepth, accepted);
  }
  depth = policy.choose(costs, kMaxDepth, kMaxDepth, false);
  return depth;
}

TEST(DepthPolicy, ChoosesTheDepthThatPaysMostOrNone) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> unit(0, 1);
  int plain = 0, drafting = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const CostModel costs = costs_of(unit(random), 0.6 * unit(random));
    const double acceptance = unit(random);
    DepthPolicy policy;
    Seen seen;
    for (int round = 0; round < 40; ++round) {
      const int most = static_cast<int>(random() % (kMaxDepth + 1));
      const bool free = random() % 2 == 0;
      const int chosen = policy.choose(costs, most, kMaxDepth, free);
      ASSERT_LE(chosen, most);
      int best = 0;
      for (int depth = 1; depth <= most; ++depth) {
        if (seen.pays(costs, depth, free) > seen.pays(costs, best, free) + 1e-12) best = depth;
      }
      if (chosen != best) {
        ASSERT_EQ(best, 0) << "a depth that is not the best";
        ASSERT_EQ(chosen, std::min(most, 2)) << "only a probe may try what does not pay";
      }
      (chosen == 0 ? plain : drafting) += 1;
      int accepted = 0;
      while (accepted < chosen && unit(random) < acceptance) ++accepted;
      policy.observe(chosen, accepted);
      seen.observe(chosen, accepted);
    }
  }
  EXPECT_GT(plain, 500);
  EXPECT_GT(drafting, 500);
}

TEST(DepthPolicy, DraftsDeeperWhereMoreIsAccepted) {
  const CostModel costs = costs_of(0.1, 0.1);
  int previous = 0;
  for (const double acceptance : {0.05, 0.3, 0.5, 0.7, 0.85, 0.97}) {
    const int depth = settled_depth(acceptance, costs);
    EXPECT_GE(depth, previous) << acceptance;
    previous = depth;
  }
  EXPECT_EQ(settled_depth(0.05, costs), 0);
  EXPECT_GE(settled_depth(0.97, costs), 6);
}

TEST(DepthPolicy, NeverPaysWhereARowCostsAsMuchAsAStep) {
  DepthPolicy policy;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(policy.choose(costs_of(1, 0.05), kMaxDepth, kMaxDepth, false), 0);
    policy.observe(kMaxDepth, kMaxDepth);
  }
}

TEST(DepthPolicy, ProbesLessAndLessOftenAndComesBackWhenDraftsAreRightAgain) {
  const CostModel costs = costs_of(0.3, 0.1);
  DepthPolicy policy;
  for (int round = 0; round < 200; ++round) policy.observe(kMaxDepth, 0);
  std::vector<int> probes;
  for (int round = 1; round <= 600; ++round) {
    const int depth = policy.choose(costs, kMaxDepth, kMaxDepth, false);
    ASSERT_LE(depth, 2);
    if (depth > 0) probes.push_back(round);
    policy.observe(depth, 0);
  }
  EXPECT_EQ(probes, (std::vector<int>{4, 12, 28, 60, 124, 252, 508}));
  int deep = 0;
  for (int round = 0; round < 20000 && deep == 0; ++round) {
    const int depth = policy.choose(costs, kMaxDepth, kMaxDepth, false);
    policy.observe(depth, depth);
    if (depth > 2) deep = round;
  }
  EXPECT_GT(deep, 0) << "hostile text must not end speculation for ever";
}

TEST(DepthPolicy, NeverProbesWhereNothingIsAllowed) {
  DepthPolicy policy;
  for (int round = 0; round < 200; ++round) policy.observe(kMaxDepth, 0);
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(policy.choose(CostModel(), kMaxDepth, 0, false), 0);
    ASSERT_EQ(policy.choose(CostModel(), 0, kMaxDepth, false), 0);
  }
}

TEST(DepthPolicy, AFixedDepthIsKeptWithinWhatIsThereAndAllowed) {
  const CostModel hopeless = costs_of(5, 5);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 8, 8, false), 5);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 3, 8, false), 3);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 8, 2, false), 2);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 0, 8, true), 0);
  EXPECT_EQ(DepthPolicy(0).choose(CostModel(), 8, 8, true), 0);
}

TEST(CostModel, InterpolatesWhatWasNotMeasuredAndGoesOnWithItsSlope) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 20;
  measured[3] = 24;
  measured[5] = 40;
  costs.calibrate(measured, 5);
  EXPECT_DOUBLE_EQ(costs.verify(1), 20);
  EXPECT_DOUBLE_EQ(costs.verify(2), 22);
  EXPECT_DOUBLE_EQ(costs.verify(3), 24);
  EXPECT_DOUBLE_EQ(costs.verify(4), 32);
  EXPECT_DOUBLE_EQ(costs.verify(5), 40);
  EXPECT_DOUBLE_EQ(costs.verify(6), 45);
  EXPECT_DOUBLE_EQ(costs.round(3, true), 1.6);
  EXPECT_DOUBLE_EQ(costs.round(3, false), 1.6 + 0.75);
}

TEST(CostModel, KeepsItsGuessWithoutAMeasurement) {
  CostModel costs;
  costs.calibrate({}, 100);
  costs.observe(1, 0, 100);
  for (int rows = 1; rows <= CostModel::kRows; ++rows)
    EXPECT_EQ(costs.verify(rows), CostModel().verify(rows));
  EXPECT_EQ(costs.draft(), CostModel().draft());
}

TEST(CostModel, NeverSaysThatMoreRowsCostLess) {
  std::mt19937 random(5);
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  for (std::size_t i = 1; i < measured.size(); ++i) {
    measured[i] = 1 + static_cast<double>(random() % 100) / 50;
  }
  costs.calibrate(measured, 0.2);
  for (int i = 0; i < 500; ++i) {
    costs.observe(static_cast<int>(random() % 12), static_cast<int>(random() % 8),
                  static_cast<double>(random() % 9));
    for (int rows = 2; rows <= CostModel::kRows; ++rows)
      ASSERT_GE(costs.verify(rows), costs.verify(rows - 1));
    ASSERT_GT(costs.draft(), 0);
  }
}

TEST(CostModel, FollowsAFasterRoundAtOnceAndALateOneSlowly) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 20;
  measured[4] = 60;
  costs.calibrate(measured, 10);
  for (int i = 0; i < 30; ++i) {
    costs.observe(1, 0, 10);
    costs.observe(4, 0, 26);
    costs.observe(4, 3, 26 + 3 * 5);
  }
  EXPECT_NEAR(costs.verify(1), 10, 0.5);
  EXPECT_NEAR(costs.verify(4), 26, 3);
  EXPECT_NEAR(costs.draft(), 5, 0.8);
  costs.observe(1, 0, 1000);
  EXPECT_LT(costs.verify(1), 11);
}

}  // namespace
}  // namespace ft
