#include "base/worker_cores.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace ft::worker_cores_test {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// Tasks of one millisecond on all cores but the avoided ones; lost(core) is a share.
template <class Lost>
void work(WorkerCores& pool, int most, std::int64_t& now_ns, int milliseconds, const Lost& lost) {
  for (int i = 0; i < milliseconds; ++i) {
    now_ns += kMs;
    for (const int core : pool.choose(most))
      pool.observe(core, kMs, static_cast<std::int64_t>(lost(core) * kMs));
    pool.rearrange(now_ns);
  }
}

std::vector<int> chosen(WorkerCores& pool, int most) {
  const std::span<const int> used = pool.choose(most);
  return {used.begin(), used.end()};
}

TEST(WorkerCores, TheFirstOnesAreUsedAndNeverMoreThanWorkers) {
  WorkerCores pool(6, 4);
  EXPECT_EQ(chosen(pool, 4), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(chosen(pool, 9), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(chosen(pool, 2), (std::vector<int>{0, 1}));
  EXPECT_EQ(chosen(pool, 0), (std::vector<int>{0}));
}

TEST(WorkerCores, ASpareOneReplacesTheOneWhoseCoreIsTaken) {
  for (const int taken : {0, 2, 3}) {
    WorkerCores pool(5, 4);
    std::int64_t now = 0;
    work(pool, 4, now, 40, [&](int core) { return core == taken ? 0.5 : 0.01; });
    const std::vector<int> used = chosen(pool, 4);
    EXPECT_EQ(used.size(), 4U);
    EXPECT_EQ(std::ranges::count(used, taken), 0) << taken;
    EXPECT_FALSE(pool.crowded()) << "no worker waits for that core any more";
  }
}

TEST(WorkerCores, SpareOnesReplaceSeveralAsLongAsThereAreEnough) {
  WorkerCores two(4, 2);
  std::int64_t now = 0;
  work(two, 2, now, 80, [](int core) { return core == 1 ? 0.9 : 0.0; });
  EXPECT_EQ(chosen(two, 2), (std::vector<int>{0, 2}));

  WorkerCores four(7, 4);
  work(four, 4, now, 160, [](int core) { return core < 2 ? 0.5 : 0.0; });
  EXPECT_EQ(chosen(four, 4), (std::vector<int>{2, 3, 4, 5}));

  WorkerCores all(7, 4);
  work(all, 4, now, 160, [](int) { return 0.5; });
  EXPECT_EQ(chosen(all, 4).size(), 1U) << "all are taken, spare ones too";
  WorkerCores both(4, 2);
  work(both, 2, now, 160, [](int) { return 0.5; });
  EXPECT_EQ(chosen(both, 2).size(), 1U);
}

TEST(WorkerCores, ATaskWithFewerWorkersHasSpareOnesToo) {
  WorkerCores pool(4, 4);
  std::int64_t now = 0;
  work(pool, 3, now, 40, [](int core) { return core == 1 ? 0.1 : 0.0; });
  EXPECT_EQ(chosen(pool, 3), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(chosen(pool, 4), (std::vector<int>{0, 2, 3})) << "and larger tasks do not wait for it either";
}

TEST(WorkerCores, WithoutASpareOneATaskHasAWorkerLessIfThatCostsLess) {
  WorkerCores sixteen(16, 16);
  std::int64_t now = 0;
  work(sixteen, 16, now, 40, [](int core) { return core == 5 ? 0.1 : 0.0; });
  EXPECT_EQ(chosen(sixteen, 16).size(), 16U) << "a tenth is about what the worker does";
  work(sixteen, 16, now, 40, [](int core) { return core == 5 ? 0.4 : 0.0; });
  EXPECT_EQ(chosen(sixteen, 16).size(), 15U);
}

TEST(WorkerCores, OneOfTwoWorkersContinuesAloneIfTheOtherHasNoCoreForHalfOfTheTime) {
  WorkerCores pool(2, 2);
  std::int64_t now = 0;
  work(pool, 2, now, 200, [](int core) { return core == 1 ? 0.4 : 0.0; });
  EXPECT_EQ(chosen(pool, 2).size(), 2U);
  EXPECT_TRUE(pool.crowded());
  work(pool, 2, now, 40, [](int core) { return core == 1 ? 0.5 : 0.0; });
  EXPECT_EQ(chosen(pool, 2).size(), 1U);
}

TEST(WorkerCores, WorkersWithoutACoreAreLeftOutHoweverManyTheyAre) {
  WorkerCores pool(8, 8);
  std::int64_t now = 0;
  work(pool, 8, now, 900, [](int core) { return core >= 3 ? 0.9 : 0.0; });
  EXPECT_EQ(chosen(pool, 8), (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(pool.crowded());
}

TEST(WorkerCores, WhereAllLoseTheirCoresTheWorkersHalveDownToOne) {
  WorkerCores pool(18, 16);
  std::int64_t now = 0;
  const auto half = [](int) { return 0.5; };
  for (const std::size_t workers : {8U, 4U, 2U, 1U}) {
    work(pool, 16, now, 40, half);
    EXPECT_EQ(chosen(pool, 16).size(), workers);
    EXPECT_TRUE(workers == 1 || pool.crowded()) << "no worker should spin";
  }
  work(pool, 16, now, 60'000, half);
  EXPECT_EQ(chosen(pool, 16).size(), 1U) << "as long as the last one loses its core too, no more are tried";
  EXPECT_EQ(pool.avoided(), 0);
}

TEST(WorkerCores, OneLongTaskSaysAsMuchAsTwoWindows) {
  WorkerCores pool(4, 4);
  std::int64_t now = 1'000 * kMs;
  const auto task = [&](std::int64_t ms) {
    now += ms * kMs;
    for (const int core : pool.choose(4)) pool.observe(core, ms * kMs, ms * kMs / 2);
    pool.rearrange(now);
  };
  task(25);
  EXPECT_EQ(pool.limit(), 4);
  task(300);
  EXPECT_EQ(pool.limit(), 2);
}

/// Loops on `taken` cores that the system keeps away from the workers as long as there is room.
template <class Body>
void beside_loops(WorkerCores& pool, int cores, int taken, std::int64_t& now, int milliseconds,
                  const Body& body) {
  for (int i = 0; i < milliseconds; ++i) {
    const int free = cores - taken, used = static_cast<int>(chosen(pool, cores).size());
    work(pool, cores, now, 1, [&](int core) { return used > free && core < used - free ? 0.5 : 0.0; });
    body(used);
  }
}

TEST(WorkerCores, AsManyWorkersStayAsCoresAreFree) {
  for (const int taken : {2, 8, 12, 15}) {
    WorkerCores pool(16, 16);
    std::int64_t now = 0;
    beside_loops(pool, 16, taken, now, 1'000, [](int) {});
    double workers = 0, late = 0;
    constexpr int kMilliseconds = 20'000;
    beside_loops(pool, 16, taken, now, kMilliseconds, [&](int used) {
      workers += used;
      late += used > 16 - taken ? 1 : 0;
    });
    EXPECT_NEAR(workers / kMilliseconds, 16 - taken, 0.15 * (16 - taken)) << taken;
    EXPECT_LT(late / kMilliseconds, 0.05) << "tries of more workers cost little: " << taken;
  }
}

TEST(WorkerCores, AllWorkersAreBackSoonAfterTheOtherProgramsHaveEnded) {
  WorkerCores pool(16, 16);
  std::int64_t now = 0;
  work(pool, 16, now, 60'000, [](int) { return 0.6; });
  ASSERT_EQ(pool.limit(), 1);
  const auto quiet = [](int) { return 0.02; };
  work(pool, 16, now, 100, quiet);
  EXPECT_GT(pool.limit(), 1);
  work(pool, 16, now, 500, quiet);
  EXPECT_EQ(chosen(pool, 16).size(), 16U);
}

TEST(WorkerCores, TriesOfMoreWorkersComeLaterAfterEachThatFailed) {
  WorkerCores pool(2, 2);
  std::int64_t now = 0;
  std::vector<std::int64_t> tries;
  bool tried = false;
  for (int i = 0; i < 60'000; ++i) {
    const bool two = chosen(pool, 2).size() == 2;
    if (two && !tried) tries.push_back(now);
    tried = two;
    work(pool, 2, now, 1, [&](int core) { return two && core == 1 ? 0.5 : 0.0; });
  }
  ASSERT_GT(tries.size(), 10U);
  EXPECT_LT(tries[2] - tries[1], 1'000 * kMs);
  EXPECT_NEAR(static_cast<double>(tries.back() - tries[tries.size() - 2]), 4'000.0 * kMs, 200.0 * kMs);
}

TEST(WorkerCores, WhoWaitsForACoreBetweenTasksIsNotAlone) {
  WorkerCores pool(2, 2);
  std::int64_t now = 0;
  work(pool, 2, now, 100, [](int) { return 0.6; });
  ASSERT_EQ(pool.limit(), 1);
  for (std::int64_t i = 0, waited = 0; i < 2'000; ++i, waited += kMs / 2) {
    now += kMs;
    pool.observe(pool.choose(2).front(), kMs / 2, 0);
    pool.rearrange(now, waited);
    ASSERT_EQ(pool.limit(), 1) << i;
  }
}

TEST(WorkerCores, AnAvoidedOneIsTriedAgainAfterASecondThenLater) {
  WorkerCores pool(4, 4);
  std::int64_t now = 0;
  const auto burnt = [](int core) { return core == 3 ? 0.9 : 0.0; };
  work(pool, 4, now, 40, burnt);
  EXPECT_EQ(pool.avoided(), 1);
  std::vector<std::int64_t> tries;  // milliseconds between two of them
  for (std::int64_t since = now; tries.size() < 8;) {
    work(pool, 4, now, 1, burnt);
    if (pool.avoided() > 0) continue;
    tries.push_back((now - since) / kMs);
    work(pool, 4, now, 40, burnt);
    EXPECT_EQ(pool.avoided(), 1);
    since = now;
  }
  EXPECT_NEAR(static_cast<double>(tries.front()), 1000, 50);
  for (std::size_t i = 1; i < tries.size(); ++i)
    EXPECT_GE(tries[i], std::min<std::int64_t>(tries[i - 1] * 3 / 2, 59'000));
  EXPECT_LE(tries.back(), 60'000);
}

TEST(WorkerCores, OneThatWasFineForLongBeginsAnew) {
  WorkerCores pool(4, 4);
  std::int64_t now = 0;
  const auto burnt = [](int core) { return core == 3 ? 0.9 : 0.0; };
  const auto quiet = [](int) { return 0.0; };
  work(pool, 4, now, 40, burnt);
  work(pool, 4, now, 10'000, quiet);
  EXPECT_EQ(pool.avoided(), 0);
  work(pool, 4, now, 40, burnt);
  EXPECT_EQ(pool.avoided(), 1);
  work(pool, 4, now, 1'100, quiet);
  EXPECT_EQ(pool.avoided(), 0) << "its break was a second again";
}

}  // namespace
}  // namespace ft::worker_cores_test
