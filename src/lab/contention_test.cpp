#include "lab/contention.h"

#include <gtest/gtest.h>

namespace ft::contention_test {
namespace {

TEST(Contention, CountsWhatOthersTook) {
  // 2 s busy, 1 s of it ours, 4 s of all cores
  EXPECT_DOUBLE_EQ(Contention::share({1, 2, 12}, {2, 4, 16}), 0.25);
}

TEST(Contention, WhatCannotBeReadIsNothing) {
  EXPECT_EQ(Contention::share({1, 0, 0}, {1, 0, 0}), 0);
  const double share = Contention().others_share();
  EXPECT_GE(share, 0);
  EXPECT_LE(share, 1);
}

TEST(Contention, SmallSharesAreNotWorthAWord) {
  EXPECT_TRUE(contention_note(0.01).empty());
  EXPECT_NE(contention_note(0.4).find("40 %"), std::string::npos);
}

}  // namespace
}  // namespace ft::contention_test
