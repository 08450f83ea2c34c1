#include "base/seats.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace ft {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// Tasks of one millisecond on all seats but the empty ones; lost(seat) is a share.
template <class Lost>
void work(Seats& seats, int most, std::int64_t& now_ns, int milliseconds, const Lost& lost) {
  for (int i = 0; i < milliseconds; ++i) {
    now_ns += kMs;
    for (const int seat : seats.choose(most))
      seats.observe(seat, kMs, static_cast<std::int64_t>(lost(seat) * kMs));
    seats.rearrange(now_ns);
  }
}

std::vector<int> chosen(Seats& seats, int most) {
  const std::span<const int> used = seats.choose(most);
  return {used.begin(), used.end()};
}

TEST(Seats, TheFirstOnesAreUsedAndNeverMoreThanWorkers) {
  Seats seats(6, 4);
  EXPECT_EQ(chosen(seats, 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(chosen(seats, 9), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(chosen(seats, 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(chosen(seats, 0), (std::vector<int>{0}));
}

TEST(Seats, ASpareOneReplacesTheOneWhoseCoreIsTaken) {
  for (const int taken : {0, 2, 3}) {
    Seats seats(5, 4);
    std::int64_t now = 0;
    work(seats, 4, now, 40, [&](int seat) { return seat == taken ? 0.5 : 0.01; });
    const std::vector<int> used = chosen(seats, 4);
    EXPECT_EQ(used.size(), 4U);
    EXPECT_EQ(std::ranges::count(used, taken), 0) << taken;
    EXPECT_FALSE(seats.crowded()) << "nobody waits for that core any more";
  }
}

TEST(Seats, ATaskWithFewerWorkersHasSpareOnesToo) {
  Seats seats(4, 4);
  std::int64_t now = 0;
  work(seats, 3, now, 40, [](int seat) { return seat == 1 ? 0.1 : 0.0; });
  EXPECT_EQ(chosen(seats, 3), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(chosen(seats, 4), (std::vector<int>{0, 2, 3})) << "and larger tasks do not wait for it either";
}

TEST(Seats, WithoutASpareOneATaskHasAWorkerLessIfThatCostsLess) {
  Seats sixteen(16, 16);
  std::int64_t now = 0;
  work(sixteen, 16, now, 40, [](int seat) { return seat == 5 ? 0.1 : 0.0; });
  EXPECT_EQ(chosen(sixteen, 16).size(), 16U) << "a tenth is about what the worker does";
  work(sixteen, 16, now, 40, [](int seat) { return seat == 5 ? 0.4 : 0.0; });
  EXPECT_EQ(chosen(sixteen, 16).size(), 15U);

  Seats two(2, 2);
  work(two, 2, now, 200, [](int seat) { return seat == 1 ? 0.6 : 0.0; });
  EXPECT_EQ(chosen(two, 2).size(), 2U) << "one of two workers does half of the work";
  EXPECT_TRUE(two.crowded());
}

TEST(Seats, HalfOfTheWorkersStayWhateverHappens) {
  Seats seats(8, 8);
  std::int64_t now = 0;
  work(seats, 8, now, 900, [](int seat) { return seat >= 3 ? 0.9 : 0.0; });
  EXPECT_EQ(chosen(seats, 8).size(), 8U) << "most of them lose that";
  work(seats, 8, now, 900, [](int seat) { return seat >= 5 ? 0.9 : 0.0; });
  EXPECT_EQ(chosen(seats, 8), (std::vector<int>{0, 1, 2, 3, 4}));
  work(seats, 8, now, 900, [](int seat) { return seat == 4 ? 0.9 : 0.0; });
  work(seats, 8, now, 100, [](int seat) { return seat == 3 ? 0.9 : 0.0; });
  EXPECT_GE(chosen(seats, 8).size(), 4U);
}

TEST(Seats, WhatAllLoseIsNoReason) {
  Seats seats(18, 16);
  std::int64_t now = 0;
  work(seats, 16, now, 500, [](int) { return 0.5; });
  EXPECT_EQ(seats.left_empty(), 0);
  EXPECT_TRUE(seats.crowded()) << "but nobody should spin";
}

TEST(Seats, AnEmptyOneIsTriedAgainAfterASecondThenLater) {
  Seats seats(4, 4);
  std::int64_t now = 0;
  const auto burnt = [](int seat) { return seat == 3 ? 0.9 : 0.0; };
  work(seats, 4, now, 40, burnt);
  EXPECT_EQ(seats.left_empty(), 1);
  std::vector<std::int64_t> tries;  // milliseconds between two of them
  for (std::int64_t since = now; tries.size() < 8;) {
    work(seats, 4, now, 1, burnt);
    if (seats.left_empty() > 0) continue;
    tries.push_back((now - since) / kMs);
    work(seats, 4, now, 40, burnt);
    EXPECT_EQ(seats.left_empty(), 1);
    since = now;
  }
  EXPECT_NEAR(static_cast<double>(tries.front()), 1000, 50);
  for (std::size_t i = 1; i < tries.size(); ++i)
    EXPECT_GE(tries[i], std::min<std::int64_t>(tries[i - 1] * 3 / 2, 59'000));
  EXPECT_LE(tries.back(), 60'000);
}

TEST(Seats, OneThatWasFineForLongBeginsAnew) {
  Seats seats(4, 4);
  std::int64_t now = 0;
  const auto burnt = [](int seat) { return seat == 3 ? 0.9 : 0.0; };
  const auto quiet = [](int) { return 0.0; };
  work(seats, 4, now, 40, burnt);
  work(seats, 4, now, 10'000, quiet);
  EXPECT_EQ(seats.left_empty(), 0);
  work(seats, 4, now, 40, burnt);
  EXPECT_EQ(seats.left_empty(), 1);
  work(seats, 4, now, 1'100, quiet);
  EXPECT_EQ(seats.left_empty(), 0) << "its break was a second again";
}

}  // namespace
}  // namespace ft
