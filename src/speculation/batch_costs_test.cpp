#include "speculation/batch_costs.h"

#include <gtest/gtest.h>

namespace ft::batch_costs_test {
namespace {

TEST(BatchCosts, KnowsNothingAtFirst) {
  EXPECT_EQ(BatchCosts().ratio(64, 32), 1);
  EXPECT_EQ(BatchCosts().ratio(2, 2), 1);
}

TEST(BatchCosts, InterpolatesBetweenTheSizesThatWereSeen) {
  BatchCosts costs;
  costs.observe(8, 8, 1);
  costs.observe(24, 8, 2);
  EXPECT_DOUBLE_EQ(costs.ratio(8, 8), 1);
  EXPECT_DOUBLE_EQ(costs.ratio(16, 8), 1.5);
  EXPECT_DOUBLE_EQ(costs.ratio(24, 8), 2);
  EXPECT_DOUBLE_EQ(costs.ratio(120, 8), 2) << "beyond the largest";
}

TEST(BatchCosts, TheLeastOfTheFirstRoundsCountsAndALateOneLittle) {
  BatchCosts costs;
  for (const double ratio : {3.0, 1.0, 9.0}) costs.observe(8, 8, ratio);
  EXPECT_DOUBLE_EQ(costs.ratio(8, 8), 1);
  costs.observe(8, 8, 100);
  EXPECT_LT(costs.ratio(8, 8), 1.2);
}

TEST(BatchCosts, FollowsAMachineThatGotFaster) {
  BatchCosts costs;
  for (int i = 0; i < 50; ++i) costs.observe(32, 8, 2);
  for (int i = 0; i < 12; ++i) costs.observe(32, 8, 1);
  EXPECT_LT(costs.ratio(32, 8), 1.05);
}

TEST(BatchCosts, ABatchOfAnotherSizeIsTakenForTheNearest) {
  BatchCosts costs;
  costs.observe(4, 4, 1.5);
  costs.observe(16, 16, 3);
  EXPECT_DOUBLE_EQ(costs.ratio(5, 5), 1.5);
  EXPECT_DOUBLE_EQ(costs.ratio(15, 15), 3);
  EXPECT_DOUBLE_EQ(costs.ratio(500, 500), 3) << "larger than any";
}

TEST(BatchCosts, PlainRoundsAreDueFirstAndAfterManyWithDrafts) {
  BatchCosts costs;
  int due = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool plain = costs.plain_due(8);
    due += plain ? 1 : 0;
    costs.observe(plain ? 8 : 24, 8, 1);
    EXPECT_TRUE(plain || i >= 3) << i;
  }
  EXPECT_GE(due, 3 + 6);
  EXPECT_LE(due, 3 + 9);
}

}  // namespace
}  // namespace ft::batch_costs_test
