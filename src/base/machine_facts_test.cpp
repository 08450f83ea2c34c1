#include "base/machine_facts.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace ft::machine_facts_test {
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

TEST(MachineFacts, CachesOfTheLastLevelCountOnceForCoresThatShareOne) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("machine_facts_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  const auto cache = [&](int cpu, int index, int level, const char* size, const char* cores) {
    const fs::path at = folder / ("cpu" + std::to_string(cpu)) / "cache" / ("index" + std::to_string(index));
    fs::create_directories(at);
    std::ofstream(at / "level") << level << "\n";
    std::ofstream(at / "size") << size << "\n";
    std::ofstream(at / "shared_cpu_list") << cores << "\n";
  };
  EXPECT_EQ(last_cache_of(folder.string()), 0) << "no folder";
  for (const int cpu : {0, 1, 2, 3}) {
    cache(cpu, 0, 1, "48K", std::to_string(cpu).c_str());
    cache(cpu, 1, 2, "2048K", std::to_string(cpu).c_str());
  }
  EXPECT_EQ(last_cache_of(folder.string()), std::int64_t{4} * 2048 * 1024) << "no third level";
  for (const int cpu : {0, 1, 2, 3}) cache(cpu, 3, 3, "32768K", cpu < 2 ? "0-1" : "2-3");
  fs::create_directories(folder / "cpu4");     // offline
  fs::create_directories(folder / "cpufreq");  // not a core
  EXPECT_EQ(last_cache_of(folder.string()), std::int64_t{2} * 32768 * 1024);
  cache(3, 3, 3, "nonsense", "2-3");
  EXPECT_EQ(last_cache_of(folder.string()), std::int64_t{2} * 32768 * 1024) << "cpu2 tells it";
  fs::remove_all(folder);
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
}  // namespace ft::machine_facts_test
