#include "server/body_budget.h"

#include <gtest/gtest.h>
#include <optional>

namespace ft::server::body_budget_test {
namespace {

TEST(BodyBudget, SharesGrowUpToTheLimitTogetherAndAreGivenBack) {
  BodyBudget budget(10);
  std::optional<BodyBudget::Share> first(budget), second(budget);
  EXPECT_TRUE(first->grow_to(6));
  EXPECT_TRUE(first->grow_to(4)) << "never shrinks";
  EXPECT_FALSE(second->grow_to(5));
  EXPECT_TRUE(second->grow_to(4));
  EXPECT_EQ(budget.left(), 0U);
  first.reset();
  EXPECT_EQ(budget.left(), 6U);
  EXPECT_TRUE(second->grow_to(10));
  second.reset();
  EXPECT_EQ(budget.left(), 10U);
}

TEST(BodyBudget, AShareThatIsMovedIsGivenBackOnce) {
  BodyBudget budget(10);
  {
    BodyBudget::Share first(budget);
    EXPECT_TRUE(first.grow_to(6));
    BodyBudget::Share second(std::move(first));
    BodyBudget::Share third;
    third = std::move(second);
    EXPECT_EQ(budget.left(), 4U);
    third = BodyBudget::Share();
    EXPECT_EQ(budget.left(), 10U);
  }
  EXPECT_EQ(budget.left(), 10U);
}

}  // namespace
}  // namespace ft::server::body_budget_test
