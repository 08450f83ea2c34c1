#include "cli/lab/machine.h"

#include <gtest/gtest.h>

namespace ft::cli {
namespace {

TEST(Machine, AProcessorThatSlowsDownInTheChecksIsAWarning) {
  PowerFacts before{"performance", 3000, 3800, 5}, after = before;
  EXPECT_TRUE(check_throttling(before, after).empty());
  after.throttled_times = 8;
  const std::vector<Finding> found = check_throttling(before, after);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Finding::Kind::kWarning);
  EXPECT_NE(found[0].what.find("3 times"), std::string::npos);
  before.throttled_times = -1;
  EXPECT_TRUE(check_throttling(before, after).empty()) << "what is unknown warns of nothing";
}

}  // namespace
}  // namespace ft::cli
