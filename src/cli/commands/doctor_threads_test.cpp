#include "cli/commands/doctor_threads.h"

#include <gtest/gtest.h>

namespace ft::cli::doctor_threads_test {
namespace {

/// `count` cores with `threads` hardware threads each.
std::vector<Core> cores(int count, int threads, int nodes = 1) {
  std::vector<Core> all;
  for (int i = 0; i < count * threads; ++i)
    all.push_back({.cpu = i, .package = 0, .id = i % count, .node = i % count * nodes / count});
  return all;
}

std::string text(int asked, const std::vector<Core>& allowed) {
  const std::vector<Core> workers = cores_for_workers(allowed);
  return threads_finding(asked, static_cast<int>(workers.size()), allowed, workers).what;
}

TEST(ThreadsFinding, SaysWhatWasChosenAndWhy) {
  EXPECT_EQ(text(0, cores(16, 1)), "16 threads, one for each core");
  EXPECT_EQ(text(0, cores(1, 1)), "1 thread, one for each core");
  EXPECT_EQ(text(0, cores(4, 2)),
            "4 threads, one for each core; second hardware threads of cores are not used (8 in all)");
  EXPECT_EQ(text(6, cores(8, 1)), "6 threads as requested; 8 cores available");
  EXPECT_EQ(text(0, cores(8, 1, 2)),
            "8 threads, one for each core; 2 memory nodes, with weights near their cores");
}

TEST(ThreadsFinding, SaysThatAContainerGrantsLess) {
  const std::vector<Core> all = cores(8, 1);
  EXPECT_EQ(threads_finding(0, 2, all, all).what, "2 threads, one per core that the control group grants");
}

TEST(ThreadsFinding, CountsTheSlowCoresOfAHybridProcessor) {
  std::vector<Core> hybrid = cores(6, 1);
  for (Core& core : hybrid) core.capacity = core.cpu < 2 ? 1024 : 500;
  EXPECT_EQ(text(0, hybrid), "2 threads, one for each core; 4 slow cores left out");
}

}  // namespace
}  // namespace ft::cli::doctor_threads_test
