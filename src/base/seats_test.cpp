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

TEST(Seats, SpareOnesReplaceSeveralAsLongAsThereAreEnough) {
  Seats two(4, 2);
  std::int64_t now = 0;
  work(two, 2, now, 80, [](int seat) { return seat == 1 ? 0.9 : 0.0; });
  EXPECT_EQ(chosen(two, 2), (std::vector<int>{0, 2}));

  Seats four(7, 4);
  work(four, 4, now, 160, [](int seat) { return seat < 2 ? 0.5 : 0.0; });
  EXPECT_EQ(chosen(four, 4), (std::vector<int>{2, 3, 4, 5}));

  Seats all(7, 4);
  work(all, 4, now, 160, [](int) { return 0.5; });
  EXPECT_EQ(chosen(all, 4).size(), 1U) << "all are taken, spare ones too";
  Seats both(4, 2);
  work(both, 2, now, 160, [](int) { return 0.5; });
  EXPECT_EQ(chosen(both, 2).size(), 1U);
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
}

TEST(Seats, OneOfTwoWorkersGoesOnAloneIfTheOtherHasNoCoreForHalfOfTheTime) {
  Seats seats(2, 2);
  std::int64_t now = 0;
  work(seats, 2, now, 200, [](int seat) { return seat == 1 ? 0.4 : 0.0; });
  EXPECT_EQ(chosen(seats, 2).size(), 2U);
  EXPECT_TRUE(seats.crowded());
  work(seats, 2, now, 40, [](int seat) { return seat == 1 ? 0.5 : 0.0; });
  EXPECT_EQ(chosen(seats, 2).size(), 1U);
}

TEST(Seats, WorkersWithoutACoreAreLeftOutHoweverManyTheyAre) {
  Seats seats(8, 8);
  std::int64_t now = 0;
  work(seats, 8, now, 900, [](int seat) { return seat >= 3 ? 0.9 : 0.0; });
  EXPECT_EQ(chosen(seats, 8), (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(seats.crowded());
}

TEST(Seats, WhereAllLoseTheirCoresTheWorkersHalveDownToOne) {
  Seats seats(18, 16);
  std::int64_t now = 0;
  const auto half = [](int) { return 0.5; };
  for (const std::size_t workers : {8U, 4U, 2U, 1U}) {
    work(seats, 16, now, 40, half);
    EXPECT_EQ(chosen(seats, 16).size(), workers);
    EXPECT_TRUE(workers == 1 || seats.crowded()) << "nobody should spin";
  }
  work(seats, 16, now, 60'000, half);
  EXPECT_EQ(chosen(seats, 16).size(), 1U) << "as long as the last one loses its core too, no more are tried";
  EXPECT_EQ(seats.left_empty(), 0);
}

TEST(Seats, OneLongTaskSaysAsMuchAsTwoWindows) {
  Seats seats(4, 4);
  std::int64_t now = 1'000 * kMs;
  const auto task = [&](std::int64_t ms) {
    now += ms * kMs;
    for (const int seat : seats.choose(4)) seats.observe(seat, ms * kMs, ms * kMs / 2);
    seats.rearrange(now);
  };
  task(25);
  EXPECT_EQ(seats.limit(), 4);
  task(300);
  EXPECT_EQ(seats.limit(), 2);
}

/// Loops on `taken` cores that the system keeps away from the workers as long as there is room.
template <class Body>
void beside_loops(Seats& seats, int cores, int taken, std::int64_t& now, int milliseconds, const Body& body) {
  for (int i = 0; i < milliseconds; ++i) {
    const int free = cores - taken, used = static_cast<int>(chosen(seats, cores).size());
    work(seats, cores, now, 1, [&](int seat) { return used > free && seat < used - free ? 0.5 : 0.0; });
    body(used);
  }
}

TEST(Seats, AsManyWorkersStayAsCoresAreFree) {
  for (const int taken : {2, 8, 12, 15}) {
    Seats seats(16, 16);
    std::int64_t now = 0;
    beside_loops(seats, 16, taken, now, 1'000, [](int) {});
    double workers = 0, late = 0;
    constexpr int kMilliseconds = 20'000;
    beside_loops(seats, 16, taken, now, kMilliseconds, [&](int used) {
      workers += used;
      late += used > 16 - taken ? 1 : 0;
    });
    EXPECT_NEAR(workers / kMilliseconds, 16 - taken, 0.15 * (16 - taken)) << taken;
    EXPECT_LT(late / kMilliseconds, 0.05) << "tries of more workers cost little: " << taken;
  }
}

TEST(Seats, AllWorkersAreBackSoonAfterTheOtherProgramsHaveEnded) {
  Seats seats(16, 16);
  std::int64_t now = 0;
  work(seats, 16, now, 60'000, [](int) { return 0.6; });
  ASSERT_EQ(seats.limit(), 1);
  const auto quiet = [](int) { return 0.02; };
  work(seats, 16, now, 100, quiet);
  EXPECT_GT(seats.limit(), 1);
  work(seats, 16, now, 500, quiet);
  EXPECT_EQ(chosen(seats, 16).size(), 16U);
}

TEST(Seats, TriesOfMoreWorkersComeLaterAfterEachThatFailed) {
  Seats seats(2, 2);
  std::int64_t now = 0;
  std::vector<std::int64_t> tries;
  bool tried = false;
  for (int i = 0; i < 60'000; ++i) {
    const bool two = chosen(seats, 2).size() == 2;
    if (two && !tried) tries.push_back(now);
    tried = two;
    work(seats, 2, now, 1, [&](int seat) { return two && seat == 1 ? 0.5 : 0.0; });
  }
  ASSERT_GT(tries.size(), 10U);
  EXPECT_LT(tries[2] - tries[1], 1'000 * kMs);
  EXPECT_NEAR(static_cast<double>(tries.back() - tries[tries.size() - 2]), 4'000.0 * kMs, 200.0 * kMs);
}

TEST(Seats, WhoWaitsForACoreBetweenTasksIsNotAlone) {
  Seats seats(2, 2);
  std::int64_t now = 0;
  work(seats, 2, now, 100, [](int) { return 0.6; });
  ASSERT_EQ(seats.limit(), 1);
  for (std::int64_t i = 0, waited = 0; i < 2'000; ++i, waited += kMs / 2) {
    now += kMs;
    seats.observe(seats.choose(2).front(), kMs / 2, 0);
    seats.rearrange(now, waited);
    ASSERT_EQ(seats.limit(), 1) << i;
  }
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
