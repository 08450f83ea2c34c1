// Other machines, described by folders like /sys/devices.
#include "base/topology.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <unistd.h>

#include "base/thread_pool.h"

namespace ft::topology_test {
namespace {

namespace fs = std::filesystem;

/// A folder like /sys/devices.
class Machine {
 public:
  Machine()
      : folder_(fs::path(::testing::TempDir()) /
                ("cores_" + std::to_string(::getpid()) + "_" + std::to_string(made_++))) {
    fs::remove_all(folder_);
  }
  ~Machine() { fs::remove_all(folder_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text << "\n";
  }
  void core(int cpu, int package, int id) const {
    const std::string topology = "system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    put(topology + "core_id", std::to_string(id));
    put(topology + "physical_package_id", std::to_string(package));
  }
  std::vector<Core> cores(int count) const {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return read_cores(folder_.string(), all);
  }
  std::vector<int> workers(int count) const {
    std::vector<int> cpus;
    for (const Core& core : cores_for_workers(cores(count))) cpus.push_back(core.cpu);
    return cpus;
  }

 private:
  static inline int made_ = 0;
  fs::path folder_;
};

TEST(Topology, ReadsListsOfHardwareThreads) {
  EXPECT_EQ(read_cpu_list("0-3,8,10-11"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(read_cpu_list("5"), (std::vector<int>{5}));
  for (const char* none : {"", "x", "-1", "3-1", "0-99999999", ","}) EXPECT_TRUE(read_cpu_list(none).empty());
  EXPECT_EQ(read_cpu_list("2,x"), (std::vector<int>{2}));
}

TEST(Topology, TakesOneHardwareThreadOfEachCore) {
  const Machine machine;
  for (int cpu = 0; cpu < 8; ++cpu) machine.core(cpu, 0, cpu % 4);  // 4 to 7 are the second ones
  EXPECT_EQ(machine.workers(8), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Topology, CoresOfTwoSocketsMayHaveTheSameNumber) {
  const Machine machine;
  for (int cpu = 0; cpu < 4; ++cpu) machine.core(cpu, cpu % 2, cpu / 2);
  machine.put("system/node/online", "0-1");
  machine.put("system/node/node0/cpulist", "0,2");
  machine.put("system/node/node1/cpulist", "1,3");
  EXPECT_EQ(machine.workers(4), (std::vector<int>{0, 2, 1, 3})) << "workers of one node are neighbours";
  EXPECT_EQ(memory_nodes(machine.cores(4)), 2);
}

TEST(Topology, LeavesTheSlowCoresOfAHybridProcessorAlone) {
  const Machine intel;
  for (int cpu = 0; cpu < 4; ++cpu) intel.core(cpu, 0, cpu / 2 * 4);  // two fast cores, two threads each
  for (int cpu = 4; cpu < 8; ++cpu) intel.core(cpu, 0, 4 + cpu);
  intel.put("cpu_core/cpus", "0-3");
  intel.put("cpu_atom/cpus", "4-7");
  EXPECT_EQ(intel.workers(8), (std::vector<int>{0, 2}));

  const Machine arm;
  for (int cpu = 0; cpu < 6; ++cpu) {
    arm.core(cpu, 0, cpu);
    arm.put("system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity", cpu < 4    ? "446"
                                                                      : cpu == 4 ? "1010"
                                                                                 : "1024");
  }
  EXPECT_EQ(arm.workers(6), (std::vector<int>{4, 5}));
}

TEST(Topology, AMachineThatTellsNothingHasAllItsCoresAndOneNode) {
  const Machine machine;
  EXPECT_EQ(machine.workers(3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(memory_nodes(machine.cores(3)), 1);
}

TEST(Topology, ThisMachineHasCoresForWorkers) { EXPECT_FALSE(usable_cores().empty()); }

}  // namespace
}  // namespace ft::topology_test
