#include "base/quantile.h"

#include <gtest/gtest.h>

namespace ft::quantile_test {
namespace {

TEST(Quantile, InterpolatesBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.25), 1.25);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace ft::quantile_test
