#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "base/cpu_quota.h"

namespace ft::thread_pool_test {
namespace {

TEST(ThreadPool, RunsTheWorkOnceOnEveryWorkerAndReturnsAfterAll) {
  const auto coarse = [] { return std::int64_t{0}; };  // without the watch for other programs
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers, ThreadPool::kSpinUs, usable_cores(), coarse);
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

TEST(ThreadPool, ZeroMeansOneWorkerPerUsableCoreThatAContainerGrants) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.workers(), cores_within(cpu_quota(), static_cast<int>(usable_cores().size())));
  EXPECT_EQ(pool.workers(), usual_workers());
  EXPECT_GE(pool.workers(), 1);
}

/// Cores for `count` workers, whatever this machine has.
std::vector<int> many_cores(int count) {
  const std::vector<int> real = usable_cores();
  std::vector<int> cores;
  for (int i = 0; i < count; ++i) cores.push_back(real[static_cast<std::size_t>(i) % real.size()]);
  return cores;
}

TEST(ThreadPool, TasksMayHaveFewerWorkersAndTheBarrierWaitsForThoseAlone) {
  constexpr int kWorkers = 6;
  ThreadPool pool(kWorkers, 5, many_cores(9));
  std::vector<int> done(kWorkers);
  std::atomic<int> wrong{0};
  int wanted = 0;
  auto work = [&](int worker, int workers) {
    wrong += workers > wanted || worker >= workers;
    for (int phase = 1; phase <= 3; ++phase) {
      done[static_cast<std::size_t>(worker)] = phase;
      pool.barrier();
      for (int other = 0; other < workers; ++other) wrong += done[static_cast<std::size_t>(other)] != phase;
      pool.barrier();
    }
  };
  for (int task = 0; task < 400; ++task) {
    wanted = 1 + task * 5 % kWorkers;
    pool.run(work, wanted);
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ThreadPool, SleepsWhereThereIsNoTask) {
  ThreadPool pool(4, 1000, many_cores(4));
  auto work = [](int, int) {};
  for (int i = 0; i < 3; ++i) {
    pool.run(work);
    while (pool.sleeping() < 3) std::this_thread::yield();
  }
  EXPECT_EQ(pool.sleeping(), 3);
}

std::atomic<std::thread::id> has_no_core;

/// A clock that does not move for one thread, as if another program had its core.
std::int64_t stopped_clock() { return std::this_thread::get_id() == has_no_core.load() ? 0 : steady_ns(); }

/// Runs tasks until one of them has other workers than before, and returns their threads.
std::vector<std::thread::id> after_a_change(ThreadPool& pool, int worker_without_core) {
  has_no_core = std::thread::id();
  std::vector<std::thread::id> first, now;
  auto work = [&](int worker, int workers) {
    if (worker == 0) now.assign(static_cast<std::size_t>(workers), {});
    pool.barrier();
    now[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  pool.run(work);
  first = now;
  has_no_core = first[static_cast<std::size_t>(worker_without_core)];
  while (now == first) pool.run(work);
  return now;
}

TEST(ThreadPool, ASpareThreadReplacesAWorkerThatAnotherProgramHoldsUp) {
  ThreadPool pool(4, 40, many_cores(5), stopped_clock);
  const std::vector<std::thread::id> threads = after_a_change(pool, 2);
  EXPECT_EQ(threads.size(), 4U);
  EXPECT_EQ(std::ranges::count(threads, has_no_core.load()), 0);
}

TEST(ThreadPool, ATaskGoesOnWithoutThatWorkerWhereThereIsNoSpareThread) {
  ThreadPool pool(4, 40, many_cores(4), stopped_clock);
  const std::vector<std::thread::id> threads = after_a_change(pool, 3);
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_EQ(std::ranges::count(threads, has_no_core.load()), 0);
}

TEST(ThreadPool, TheCallerTakesAnotherCoreIfItsOwnIsTaken) {
  ThreadPool pool(3, 40, many_cores(4), stopped_clock);
  const std::vector<std::thread::id> threads = after_a_change(pool, 0);
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_EQ(threads.front(), std::this_thread::get_id()) << "worker 0 is always the caller";
}

std::atomic<bool> stopped;

/// The numbers of workers of tasks on four cores that other programs take, until a task has one.
std::vector<int> workers_without_cores(int tasks, bool meet) {
  stopped = false;
  ThreadPool pool(4, 40, many_cores(4), [] { return stopped ? 0 : steady_ns(); });
  stopped = true;
  std::vector<int> numbers;
  auto work = [&](int worker, int workers) {
    if (worker == 0 && (numbers.empty() || numbers.back() != workers)) numbers.push_back(workers);
    if (meet) pool.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (int task = 0; task < tasks && (numbers.empty() || numbers.back() > 1); ++task) pool.run(work);
  return numbers;
}

TEST(ThreadPool, WhereNobodyHasACoreForLongACallerWorksAlone) {
  EXPECT_EQ(workers_without_cores(100'000, true), (std::vector<int>{4, 2, 1}));
}

TEST(ThreadPool, WorkersThatDoNotWaitForEachOtherStay) {
  EXPECT_EQ(workers_without_cores(200, false), (std::vector<int>{4}));
}

TEST(ThreadPool, WhoIsWokenAndHasNoCoreDoesNotSleep) {
  EXPECT_EQ(ThreadPool::slept_ns(100, 130, 190), 30);
  EXPECT_EQ(ThreadPool::slept_ns(100, 0, 190), 90) << "no worker was seen sleeping";
  EXPECT_EQ(ThreadPool::slept_ns(100, 70, 190), 90) << "an earlier sleep's";
  EXPECT_EQ(ThreadPool::slept_ns(100, 230, 190), 90) << "a later sleep's";
}

TEST(ThreadPool, CanBeDestroyedWithoutHavingRun) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(3);
  SUCCEED();
}

}  // namespace
}  // namespace ft::thread_pool_test
