#include "speculation/accept.h"

#include <array>
#include <gtest/gtest.h>

namespace ft::accept_test {
namespace {

TEST(Accept, TakesNothingOfNoDraft) {
  const std::array<std::int32_t, 1> sampled = {7};
  EXPECT_EQ(accept({}, sampled), 0);
}

TEST(Accept, StopsAtTheFirstMismatchWhateverFollows) {
  const std::array<std::int32_t, 5> sampled = {1, 2, 3, 4, 5};
  EXPECT_EQ(accept(std::array<std::int32_t, 4>{9, 2, 3, 4}, sampled), 0);
  EXPECT_EQ(accept(std::array<std::int32_t, 4>{1, 9, 3, 4}, sampled), 1);
  EXPECT_EQ(accept(std::array<std::int32_t, 4>{1, 2, 3, 9}, sampled), 3);
}

TEST(Accept, TakesAllThatEqualTheChoiceOfTheirOwnRow) {
  const std::array<std::int32_t, 4> sampled = {1, 2, 3, 4};
  EXPECT_EQ(accept(std::array<std::int32_t, 3>{1, 2, 3}, sampled), 3);
  // Shifted by one row: the sample of the row after a draft does not test the draft.
  EXPECT_EQ(accept(std::array<std::int32_t, 3>{2, 3, 4}, sampled), 0);
}

}  // namespace
}  // namespace ft::accept_test
