#include "sched/engine_status.h"

#include <gtest/gtest.h>

namespace ft::engine_status_test {
namespace {

TEST(LatencySums, ABoundBelongsToItsOwnBucketAndWhatIsAboveAllToTheLast) {
  LatencySums sums;
  sums.add(LatencySums::kBounds[0]);
  sums.add(LatencySums::kBounds[0] * 1.001, 2);
  sums.add(LatencySums::kBounds.back() + 1);
  EXPECT_EQ(sums.buckets[0], 1);
  EXPECT_EQ(sums.buckets[1], 2);
  EXPECT_EQ(sums.buckets.back(), 1);
  EXPECT_EQ(sums.count, 4);
  EXPECT_NEAR(sums.sum_seconds, 0.003002 + 61, 1e-9);
}

}  // namespace
}  // namespace ft::engine_status_test
