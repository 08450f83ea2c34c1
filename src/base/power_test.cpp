#include "base/power.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace ft::power_test {
namespace {

#ifdef __linux__
class Power : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/foretoken_power_XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(int core, const std::string& file, const std::string& text) {
    const std::filesystem::path path =
        std::filesystem::path(root_) / "sys/devices/system/cpu" / ("cpu" + std::to_string(core)) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::string root_;
};

TEST_F(Power, ClocksAreAMeanAndAPackageCountsOnce) {
  for (int core = 0; core < 2; ++core) {
    write(core, "uevent", "");
    write(core, "cpufreq/scaling_governor", "powersave");
    write(core, "cpufreq/scaling_cur_freq", core == 0 ? "2000000" : "3000000");
    write(core, "cpufreq/cpuinfo_max_freq", "3800000");
    write(core, "thermal_throttle/core_throttle_count", core == 0 ? "3" : "4");
    write(core, "thermal_throttle/package_throttle_count", "10");
  }
  const PowerFacts facts = power_facts(root_);
  EXPECT_EQ(facts.governor, "powersave");
  EXPECT_DOUBLE_EQ(facts.mhz, 2500);
  EXPECT_DOUBLE_EQ(facts.highest_mhz, 3800);
  EXPECT_EQ(facts.throttled_times, 17);
  EXPECT_EQ(clock_text(facts), "2.5 of 3.8 GHz, slowed down 17 times since the system started");
}

TEST_F(Power, WhatCannotBeReadIsUnknownNotZero) {
  write(0, "uevent", "");
  write(0, "thermal_throttle/core_throttle_count", "garbage");
  const PowerFacts facts = power_facts(root_);
  EXPECT_EQ(facts.throttled_times, -1);
  EXPECT_EQ(facts.mhz, 0);
  EXPECT_EQ(clock_text(facts), "not readable");
  EXPECT_EQ(clock_text(power_facts(root_ + "/none")), "not readable");
}
#endif

TEST(PowerText, SaysWhatIsKnown) {
  EXPECT_EQ(clock_text({"", 2000, 0, -1}), "2.0 GHz");
  EXPECT_EQ(clock_text({"", 0, 0, 0}), "slowed down 0 times since the system started");
}

}  // namespace
}  // namespace ft::power_test
