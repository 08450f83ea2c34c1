#include "base/cpu_quota.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace ft::cpu_quota_test {
namespace {

/// A folder that looks like / to cpu_quota().
class Root {
 public:
  explicit Root(const std::string& groups) { put("proc/self/cgroup", groups); }
  ~Root() { std::filesystem::remove_all(folder_); }
  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double quota() const { return cpu_quota(folder_.string()); }

 private:
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("foretoken-quota-" + std::to_string(::getpid()) + "-" +
                                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST(CpuQuota, TheTightestGroupAboveTheProcessCounts) {
  const Root root("0::/a/b\n");
  EXPECT_EQ(root.quota(), 0) << "no file, no limit";
  root.put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(root.quota(), 0);
  root.put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(root.quota(), 2.5);
  root.put("sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(root.quota(), 2.5);
  root.put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(root.quota(), 0.5);
}

TEST(CpuQuota, GroupsOfVersionOneCountToo) {
  const Root root("5:devices:/a\n3:cpu,cpuacct:/a\n1:cpuset:/b\n0::/\n");
  root.put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  root.put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(root.quota(), 0);
  root.put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(root.quota(), 3);
}

TEST(CpuQuota, AContainerThatSeesItsGroupAsTheRootIsLimited) {
  const Root root("0::/host/name/of/the/container\n");
  root.put("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(root.quota(), 1.5);
}

TEST(CpuQuota, WhatIsNoLimitIsNotTakenForOne) {
  const Root root("no colons\n:\n0::\n7:cpu\n");
  for (const char* text : {"", "max", "0 100000", "100000", "100000 0", "-5 -5", "nan 1", "x"}) {
    root.put("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(root.quota(), 0) << text;
  }
}

TEST(CpuQuota, LeavesWholeCoresAndAtLeastOne) {
  EXPECT_EQ(cores_within(0, 8), 8);
  EXPECT_EQ(cores_within(16, 8), 8);
  EXPECT_EQ(cores_within(3.9, 8), 3);
  EXPECT_EQ(cores_within(3.999, 8), 4);
  EXPECT_EQ(cores_within(0.5, 8), 1);
}

}  // namespace
}  // namespace ft::cpu_quota_test
