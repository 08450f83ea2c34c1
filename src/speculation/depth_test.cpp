#include "speculation/depth.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "speculation/simulated_drafting.h"

namespace ft::depth_test {
namespace {

int settled_depth(double acceptance, const CostModel& costs) {
  std::mt19937 random(3);
  DepthPolicy policy;
  for (int round = 0; round < 600; ++round) {
    int accepted = 0;
    while (accepted < kMaxDraftTokens && std::uniform_real_distribution(0.0, 1.0)(random) < acceptance)
      ++accepted;
    policy.observe(kMaxDraftTokens, accepted, kPasses);
  }
  return policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
}

/// A text whose drafts are right with a chance that depends on the place and the draft's position.
struct Text {
  const char* name;
  double (*chance)(int token, int position);
};

constexpr Text kTexts[] = {
    {"never", [](int, int) { return 0.0; }},
    {"seldom", [](int, int) { return 0.2; }},
    {"sometimes", [](int, int) { return 0.4; }},
    {"mostly", [](int, int) { return 0.8; }},
    {"nearly always", [](int, int) { return 0.95; }},
    {"falling by position", [](int, int position) { return 0.93 - 0.09 * position; }},
    {"low and falling", [](int, int position) { return position == 0 ? 0.6 : 0.4; }},
    {"right, then wrong", [](int token, int) { return token / 200 % 2 == 0 ? 0.92 : 0.0; }},
    {"wrong, then right", [](int token, int) { return token / 200 % 2 == 0 ? 0.0 : 0.9; }},
    {"short bursts", [](int token, int) { return token / 40 % 2 == 0 ? 0.95 : 0.2; }},
};

/// Tokens for the time of a plain step, over texts of 1600 tokens; depth -1: the policy's choice.
double pace(const Text& text, const CostModel& costs, int depth) {
  double tokens = 0;
  double steps = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> unit(0, 1);
    DepthPolicy policy(depth);
    for (int token = 0; token < 1600;) {
      const int drafted = policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
      int accepted = 0;
      while (accepted < drafted && unit(random) < text.chance(token, accepted)) ++accepted;
      policy.observe(drafted, accepted, kPasses);
      steps += costs.round(drafted, false);
      token += 1 + accepted, tokens += 1 + accepted;
    }
  }
  return tokens / steps;
}

TEST(DepthPolicy, IsWithinThreePercentOfTheBestFixedDepthOnEveryText) {
  for (const CostModel& costs :
       {costs_of(0.1, 0.06), costs_of(0.09, 0.1), costs_of(0.03, 0.05), costs_of(0.25, 0.2)}) {
    for (const Text& text : kTexts) {
      double best = 0;
      for (int depth = 0; depth <= kMaxDraftTokens; ++depth) best = std::max(best, pace(text, costs, depth));
      EXPECT_GE(pace(text, costs, -1), (std::string(text.name) == "short bursts" ? 0.94 : 0.97) * best)
          << text.name << ", a row costs " << costs.verify(2) - costs.verify(1) << ", a draft "
          << costs.draft();
    }
    EXPECT_GE(pace(kTexts[0], costs, -1), 0.98) << "drafts that are never right";
  }
}

/// Without an earlier request: its allowance is a plain step, and 1% of the time.
TEST(DepthPolicy, AFirstRequestLosesNoMoreThanItsCreditWhereNoDraftIsRight) {
  for (const CostModel& costs :
       {costs_of(0.04, 0.05), costs_of(0.1, 0.06), costs_of(0.02, 0.03), costs_of(0.2, 0.2)}) {
    for (const int length : {64, 96, 200, 600}) {
      DepthPolicy policy;
      double steps = 0;
      for (int token = 0; token < length; ++token) {
        const int drafted = policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
        policy.observe(drafted, 0, kPasses);
        steps += costs.round(drafted, false);
      }
      EXPECT_LE(steps - length, 1.1 + 0.01 * length)
          << length << " tokens, a row costs " << costs.verify(2) - costs.verify(1);
    }
  }
}

TEST(DepthPolicy, StartsFromWhatEarlierRequestsSaw) {
  const CostModel costs = costs_of(0.1, 0.1);
  AcceptancePrior prior;
  for (int request = 0; request < 20; ++request) {
    DepthPolicy policy(-1, prior);
    for (int round = 0; round < 50; ++round)
      policy.observe(policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses), 0, kPasses);
    policy.teach(prior);
  }
  AcceptancePrior untaught;
  DepthPolicy given(3, untaught);
  for (int round = 0; round < 50; ++round) given.observe(3, 0, kPasses);
  given.teach(untaught);
  EXPECT_EQ(untaught.rates, AcceptancePrior().rates) << "measuring costs says nothing about texts";
  EXPECT_EQ(DepthPolicy(-1, prior).choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses), 0);
  EXPECT_GT(DepthPolicy(-1, prior).choose(costs, kMaxDraftTokens, kMaxDraftTokens, kFree), 0)
      << "the head's acceptance says nothing about lookup's";
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
    EXPECT_EQ(policy.choose(costs_of(1, 0.05), kMaxDraftTokens, kMaxDraftTokens, kPasses), 0);
    policy.observe(kMaxDraftTokens, kMaxDraftTokens, kPasses);
  }
}

TEST(DepthPolicy, ProbesLessAndLessOftenAndComesBackWhenDraftsAreRightAgain) {
  const CostModel costs = costs_of(0.3, 0.1);
  DepthPolicy policy;
  for (int round = 0; round < 200; ++round) policy.observe(kMaxDraftTokens, 0, kPasses);
  std::vector<int> probes;
  for (int round = 1; round <= 600; ++round) {
    const int depth = policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
    ASSERT_LE(depth, 1);
    if (depth > 0) probes.push_back(round);
    policy.observe(depth, 0, kPasses);
  }
  EXPECT_EQ(probes, (std::vector<int>{16, 48, 112, 192, 272, 352, 432, 512, 592}));
  int deep = 0;
  for (int round = 0; round < 2000 && deep == 0; ++round) {
    const int depth = policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
    policy.observe(depth, depth, kPasses);
    if (depth > 2) deep = round;
  }
  EXPECT_GT(deep, 0) << "hostile text must not end speculation for ever";
}

/// A block of 7, and text that is right or wrong after right drafts, at rows that cost little or much.
TEST(DepthPolicyText, FollowsABlockWhereItsRowsPay) {
  for (const bool right : {true, false}) {
    for (const double row : {0.02, 0.5}) {
      const CostModel costs = costs_of(row, 0.2);
      DepthPolicy policy;
      for (int round = 0; round < 40; ++round) {
        policy.choose(costs, 7, kMaxDraftTokens, kBlock);
        policy.observe(7, 7, kBlock);
        policy.observe_more(8, right ? 8 : 0, kFree, 2);
      }
      const int depth = policy.choose(costs, 7, kMaxDraftTokens, kBlock);
      RoundSoFar others;
      others.draft_steps = 1;
      const double before = policy.expected();
      const int more = policy.choose_more(costs, kFree, 2, 8, others);
      if (depth == 7 && right && row < 0.1) {
        EXPECT_EQ(more, 8);
        EXPECT_GT(policy.expected(), before + 6);
      }
      if (!right) {
        EXPECT_EQ(more, 0) << row;
      }
    }
  }
  DepthPolicy fixed(10);
  fixed.choose(costs_of(0.02, 0.2), 7, kMaxDraftTokens, kBlock);
  EXPECT_EQ(fixed.choose_more(costs_of(0.02, 0.2), kFree, 0, 8, {}), 3) << "the depth that was asked for";
}

TEST(DepthPolicyText, IsNotBoughtWhereItsRowsAreDear) {
  const CostModel costs = costs_of(0.05, 0.05);
  DepthPolicy policy;
  for (int round = 0; round < 60; ++round) {
    const int depth = policy.choose(costs, 7, kMaxDraftTokens, kBlock);
    policy.observe(depth, std::min(depth, 1), kBlock);
  }
  policy.choose(costs, 7, kMaxDraftTokens, kBlock);
  RoundSoFar others;
  others.draft_steps = 1;
  EXPECT_LE(policy.choose_more(costs_of(0.6, 0.05), kFree, 3, 8, others), 0);
}

TEST(DepthPolicy, SaysWhy) {
  const CostModel costs = costs_of(0.1, 0.1);
  DepthPolicy policy;
  policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
  EXPECT_NE(policy.explain().find("tokens expected for"), std::string::npos) << policy.explain();
  for (int round = 0; round < 100; ++round) policy.observe(kMaxDraftTokens, 0, kPasses);
  policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
  EXPECT_NE(policy.explain().find("no depth pays"), std::string::npos) << policy.explain();
  policy.choose(costs, 0, kMaxDraftTokens, kPasses);
  EXPECT_NE(policy.explain().find("nothing to draft"), std::string::npos) << policy.explain();
  DepthPolicy fixed(3);
  fixed.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses);
  EXPECT_EQ(fixed.explain(), "depth 3: as requested");
}

TEST(DepthPolicy, NeverProbesWhereNothingIsAllowed) {
  DepthPolicy policy;
  for (int round = 0; round < 200; ++round) policy.observe(kMaxDraftTokens, 0, kPasses);
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(policy.choose(CostModel(), kMaxDraftTokens, 0, kPasses), 0);
    ASSERT_EQ(policy.choose(CostModel(), 0, kMaxDraftTokens, kPasses), 0);
  }
}

TEST(DepthPolicy, AFixedDepthIsKeptWithinWhatIsThereAndAllowed) {
  const CostModel hopeless = costs_of(5, 5);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 8, 8, kPasses), 5);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 3, 8, kPasses), 3);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 8, 2, kPasses), 2);
  EXPECT_EQ(DepthPolicy(5).choose(hopeless, 0, 8, kFree), 0);
  EXPECT_EQ(DepthPolicy(0).choose(CostModel(), 8, 8, kFree), 0);
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

/// Rows cost next to nothing up to a point and their full share after it, as in a kernel that first reads
/// weights and then computes.
TEST(DepthPolicy, DepthFallsAsTheBatchGrowsWhereRowsCostMore) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  for (int rows = 1; rows <= CostModel::kRows; ++rows)
    measured[static_cast<std::size_t>(rows)] = 1 + 0.02 * (rows - 1) + (rows > 5 ? 0.2 * (rows - 5) : 0);
  costs.calibrate(measured, 0.05);
  int before = kMaxDraftTokens + 1;
  for (const int slots : {1, 3, 8}) {
    DepthPolicy policy;
    for (int i = 0; i < 60; ++i) policy.observe(3, i % 5 == 0 ? 1 : 3, kPasses);
    const RoundSoFar others{slots, slots - 1, 0, slots - 1.0};
    const int depth = policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses, others);
    EXPECT_LT(depth, before) << slots;
    EXPECT_GE(policy.expected(), 1);
    before = depth;
  }
}

TEST(DepthPolicy, ARowAmongNeighboursIsWeighedAgainstAllTheirTokens) {
  const CostModel costs = costs_of(0.3, 0);  // a row costs 0.3 steps
  for (const double others : {0.0, 3.0, 12.0}) {
    DepthPolicy policy;
    for (int i = 0; i < 60; ++i) policy.observe(1, i % 2, kPasses);  // half of the first drafts are right
    const RoundSoFar so_far{4, 3, 0, others};
    // A draft adds half a token and 0.3 steps to a round of about two steps.
    const bool pays = (others + 1.5) / (costs.round(5, 1, 4)) > (others + 1) / costs.round(4, 0, 4);
    EXPECT_EQ(policy.choose(costs, 1, 1, kPasses, so_far) > 0, pays) << others;
  }
}

/// A calibration at a bad moment: drafts seemed ten times as dear as they are.
TEST(CostModel, EarlyRoundsOfDearDraftsLowerTheDraftsAndNotThePlainStep) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 10, measured[2] = 11;
  costs.calibrate(measured, 10);
  costs.observe(1, 0, 10);
  for (int round = 0; round < 20; ++round) costs.observe(2, 1, 12);
  EXPECT_NEAR(costs.verify(1), 10, 0.01);
  EXPECT_NEAR(costs.round(2, 1, 1), 1.2, 0.02);
  EXPECT_NEAR(costs.draft(), 1.5, 0.6);
}

/// Rounds that vary by themselves: their mean counts, not their low end.
TEST(CostModel, RoundsWhoseTimeVariesCostTheirMean) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 10, measured[4] = 20;
  costs.calibrate(measured, 1);
  std::mt19937 random(5);
  std::normal_distribution<double> varies(30, 5);
  for (int round = 0; round < 400; ++round) {
    costs.observe(1, 0, 10);
    costs.observe(4, 3, varies(random));
  }
  EXPECT_NEAR(costs.round(4, 3, 1), 3, 0.2);
  for (int round = 0; round < 12; ++round) costs.observe(4, 3, 15);  // it has become faster
  EXPECT_NEAR(costs.round(4, 3, 1), 1.5, 0.1);
}

TEST(CostModel, BatchesTeachWhatSlotsAndFurtherRowsCost) {
  CostModel costs = costs_of(0.1, 0.05);
  const auto truth = [](int rows, int slots) {
    return 1 + 0.1 * (rows - 1) + (rows > CostModel::kRows ? 0.15 * (rows - CostModel::kRows) : 0) +
           0.3 * (slots - 1);
  };
  for (int i = 0; i < 400; ++i) {
    costs.observe(4, 0, truth(4, 4), 4);
    costs.observe(24, 2, truth(24, 8) + 2 * costs.draft(), 8);
  }
  EXPECT_NEAR(costs.verify(4, 4), truth(4, 4), 0.1);
  EXPECT_NEAR(costs.verify(24, 8), truth(24, 8), 0.3);
  EXPECT_NEAR(costs.verify(4), truth(4, 1), 0.01) << "the cost of a slot alone is unchanged";
}

TEST(CostModel, TheFirstDraftedBatchesSayWhatTheirDraftsCost) {
  CostModel costs = costs_of(0.02, 0.05);  // one slot's rows and passes are nearly free
  const auto truth = [&costs](int rows) { return costs.verify(8) + 3 + 0.5 * (rows - 8); };
  for (const double late : {1.0, 0.0, 9.0}) costs.observe(8, 0, truth(8) + late, 8);
  for (const double late : {30.0, 7.0, 0.0}) costs.observe(32, 3, truth(32) + late, 8);
  EXPECT_NEAR(costs.verify(8, 8), truth(8), 1e-6);
  EXPECT_NEAR(costs.verify(32, 8) + 3 * costs.draft(), truth(32), 1e-6);
  EXPECT_NEAR(costs.verify(20, 8), (truth(8) + truth(32) - 3 * costs.draft()) / 2, 1) << "and those between";
}

TEST(CostModel, WhatNoRoundHasShownKeepsItsRatioToFasterPlainSteps) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 40, measured[4] = 60;  // calibrated at a moment when all took twice as long
  costs.calibrate(measured, 8);
  for (int i = 0; i < 30; ++i) costs.observe(1, 0, 20);
  EXPECT_NEAR(costs.verify(1), 20, 0.1);
  EXPECT_NEAR(costs.verify(4), 30, 0.1);
  EXPECT_NEAR(costs.draft(), 4, 0.1);
}

TEST(CostModel, PlainStepsThatVaryDoNotWearDownWhatNoRoundHasShown) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 20, measured[4] = 30;
  costs.calibrate(measured, 4);
  for (int i = 0; i < 4000; ++i) costs.observe(1, 0, i % 2 == 0 ? 19 : 21);
  EXPECT_GT(costs.verify(4), 28);
  EXPECT_GT(costs.draft(), 3.7);
}

TEST(CostModel, ARoundThatTakesWhatCalibrationSaidIsBelievedAtOnce) {
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  measured[1] = 40, measured[4] = 60;  // only the plain steps were slow then
  costs.calibrate(measured, 8);
  for (int i = 0; i < 30; ++i) costs.observe(1, 0, 20);
  costs.observe(4, 3, 60 + 3 * 8);
  EXPECT_NEAR(costs.verify(4) + 3 * costs.draft(), 84, 1);
  costs.observe(4, 3, 900);
  EXPECT_LT(costs.verify(4) + 3 * costs.draft(), 100) << "calibration does not explain it: chance";
}

TEST(DepthPolicy, ABlockPaysOneStepHoweverDeep) {
  const CostModel costs = costs_of(0.01, 0.4);  // rows are cheap, steps are not
  EXPECT_LT(DepthPolicy().choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses), 3);
  EXPECT_GT(DepthPolicy().choose(costs, kMaxDraftTokens, kMaxDraftTokens, kBlock), 5);
}

TEST(DepthPolicy, WhatOneDrafterGetsWrongSaysNothingAboutAnother) {
  const CostModel costs = costs_of(0.1, 0.1);
  DepthPolicy policy;
  for (int round = 0; round < 200; ++round) policy.observe(kMaxDraftTokens, 0, kPasses);
  EXPECT_EQ(policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kPasses), 0);
  EXPECT_GT(policy.choose(costs, kMaxDraftTokens, kMaxDraftTokens, kBlock), 0);
}

TEST(CostModel, LearnsWhatALongContextCosts) {
  CostModel costs = costs_of(0.05, 0.05);
  const auto truth = [&](int rows, double context) {
    return costs_of(0.05, 0.05).verify(rows) + 0.05 * context + 0.02 * context * (rows - 1);
  };
  for (int i = 0; i < 6; ++i) {
    costs.observe(1, 0, truth(1, 16), 1, {16, 0});
    costs.observe(4, 0, truth(4, 16), 1, {16, 3 * 16.0});
  }
  EXPECT_NEAR(costs.verify(4) + costs.reading({16, 48}), truth(4, 16), 0.1);
  EXPECT_NEAR(costs.verify(4), truth(4, 0), 1e-9) << "the cost of short contexts is unchanged";
}

TEST(DepthPolicy, BelievesWrongDraftsSoonerWhereTheyAreDear) {
  RoundSoFar far;
  far.context = far.read.sequences = 16;
  CostModel costs = costs_of(0.05, 0.05);
  costs.observe(1, 0, 1.4, 1, {16, 0});
  costs.observe(2, 0, 2.0, 1, {16, 16});
  DepthPolicy policy;
  const Offer offer{&kPasses, kMaxDraftTokens};
  int wrong = 0;
  while (const int depth = policy.choose(costs, {&offer, 1}, kMaxDraftTokens, far)) {
    policy.observe(depth, 0, kPasses);
    ASSERT_LT(++wrong, 5);
  }
}

/// A clock that lies: every round of more than one row was measured at three times its cost.
TEST(DepthPolicy, ADepthThatOnlyABadMomentSpeaksAgainstIsTriedAgainSoon) {
  CostModel truth = costs_of(0.08, 0.08);
  CostModel costs;
  std::array<double, CostModel::kRows + 1> measured{};
  for (int rows = 1; rows <= CostModel::kRows; ++rows)
    measured[static_cast<std::size_t>(rows)] = rows == 1 ? 1 : 3 * truth.verify(rows);
  costs.calibrate(measured, 0.4);
  for (const int answer : {400, 20}) {  // rounds of a request
    CostModel learnt = costs;
    AcceptancePrior prior;
    DepthPolicy policy(-1, prior);
    int rounds = 0, depth = 0;
    for (; rounds < 400 && depth < 6; ++rounds) {
      if (rounds % answer == answer - 1) {
        policy.teach(prior);
        policy = DepthPolicy(-1, prior);
      }
      depth = policy.choose(learnt, kMaxDraftTokens, kMaxDraftTokens, kPasses);
      policy.observe(depth, depth, kPasses);
      learnt.observe(1 + depth, depth, truth.verify(1 + depth) + depth * truth.draft());
    }
    EXPECT_LT(rounds, 300) << "answers of " << answer << " rounds";
  }
}

}  // namespace
}  // namespace ft::depth_test
