#include "cli/lab/contention.h"

#include <gtest/gtest.h>

namespace ft::cli {
namespace {

TEST(Contention, CountsWhatOthersTook) {
  const auto begin = Contention::read_stat("cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1", 1.0, 100);
  const auto end = Contention::read_stat("cpu  250 50 100 1200 0 0 0 0 0 0\ncpu0 1", 2.0, 100);
  EXPECT_DOUBLE_EQ(begin.busy_s, 2);
  EXPECT_DOUBLE_EQ(begin.all_s, 12);
  EXPECT_DOUBLE_EQ(Contention::share(begin, end), 0.25);  // 2 s busy, 1 s of it ours, 4 s of all cores
}

TEST(Contention, WhatCannotBeReadIsNothing) {
  const auto none = Contention::read_stat("", 1, 100);
  EXPECT_EQ(Contention::share(none, none), 0);
  EXPECT_EQ(Contention::read_stat("cpu 1 2", 1, 100).all_s, 0);
  const double share = Contention().others_share();
  EXPECT_GE(share, 0);
  EXPECT_LE(share, 1);
}

TEST(Contention, SmallSharesAreNotWorthAWord) {
  EXPECT_TRUE(contention_note(0.01).empty());
  EXPECT_NE(contention_note(0.4).find("40 %"), std::string::npos);
}

}  // namespace
}  // namespace ft::cli
