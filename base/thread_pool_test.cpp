#include "base/thread_pool.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>

namespace ft {
namespace {

TEST(ThreadPool, RunsTheWorkOnceOnEveryWorkerAndReturnsAfterAll) {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    ASSERT_EQ(pool.workers(), workers);
    std::vector<int> calls(static_cast<std::size_t>(workers));
    auto work = [&](int worker, int count) {
      EXPECT_EQ(count, workers);
      ++calls[static_cast<std::size_t>(worker)];
    };
    for (int i = 0; i < 50; ++i) pool.run(work);
    for (const int call : calls) EXPECT_EQ(call, 50);
  }
}

TEST(ThreadPool, BarrierOrdersEveryPhaseEvenWithMoreWorkersThanCores) {
  for (const int spin_us : {0, 5, 40}) {
    constexpr int kWorkers = 8;
    constexpr int kPhases = 200;
    ThreadPool pool(kWorkers, spin_us);
    std::vector<int> done(kWorkers);  // plain ints: the barrier alone makes them visible
    std::atomic<int> wrong{0};
    auto work = [&](int worker, int) {
      for (int phase = 1; phase <= kPhases; ++phase) {
        done[static_cast<std::size_t>(worker)] = phase;
        pool.barrier();
        for (const int other : done) wrong += other != phase;
        pool.barrier();
      }
    };
    pool.run(work);
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(ThreadPool, ZeroMeansOneWorkerPerUsableCore) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.workers(), static_cast<int>(usable_cores().size()));
  EXPECT_GE(pool.workers(), 1);
}

TEST(ThreadPool, CanBeDestroyedWithoutHavingRun) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(3);
  SUCCEED();
}

}  // namespace
}  // namespace ft
