#include "base/machine_facts.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

TEST(MachineFacts, IdleAndWaitingCoresAreNotBusy) {
  const ProcessorTimes times = times_of_proc_stat("cpu  100 0 100 900 100 0 0 0 0 0\ncpu0 1", 100);
  EXPECT_DOUBLE_EQ(times.busy_s, 2);
  EXPECT_DOUBLE_EQ(times.all_s, 12);
}

TEST(MachineFacts, ALineThatIsCutGivesNothing) {
  EXPECT_EQ(times_of_proc_stat("", 100).all_s, 0);
  EXPECT_EQ(times_of_proc_stat("cpu 1 2", 100).all_s, 0);
  EXPECT_EQ(times_of_proc_stat("cpu 1 2 3 4 5 6 7 8", 0).all_s, 0);
}

TEST(MachineFacts, ThisMachineTellsItsMemoryAndCores) {
  const MemoryFacts memory = memory_facts();
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.total);
  EXPECT_GE(processor_facts().logical_cores, 1);
  EXPECT_GT(resident_bytes(), 0);
  EXPECT_LT(resident_bytes(), memory.total);
}

TEST(MachineFacts, BusyTimeIsAPartOfAllTime) {
  const ProcessorTimes times = processor_times();
  EXPECT_GT(times.all_s, 0);
  EXPECT_LE(times.busy_s, times.all_s);
}

}  // namespace
}  // namespace ft
