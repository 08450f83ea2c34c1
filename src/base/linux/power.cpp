#include "base/power.h"

#include <algorithm>
#include <fstream>

namespace ft {
namespace {

constexpr int kMaxCores = 4096;
constexpr double kKilo = 1000;

/// The number in a file; -1: there is none.
std::int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = -1;
  return file >> value && value >= 0 ? value : -1;
}

}  // namespace

PowerFacts power_facts(const std::string& root) {
  PowerFacts facts;
  double khz = 0;
  int clocks = 0;
  std::int64_t cores = 0, package = 0;
  bool counts = false;
  for (int core = 0; core < kMaxCores; ++core) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(core);
    if (!std::ifstream(folder + "/uevent")) break;
    if (core == 0) std::ifstream(folder + "/cpufreq/scaling_governor") >> facts.governor;
    if (const std::int64_t now = number_in(folder + "/cpufreq/scaling_cur_freq"); now > 0) {
      khz += static_cast<double>(now);
      ++clocks;
    }
    const std::int64_t highest = number_in(folder + "/cpufreq/cpuinfo_max_freq");
    facts.highest_mhz = std::max(facts.highest_mhz, static_cast<double>(highest) / kKilo);
    const std::int64_t own = number_in(folder + "/thermal_throttle/core_throttle_count");
    const std::int64_t all = number_in(folder + "/thermal_throttle/package_throttle_count");
    counts = counts || own >= 0;
    cores += std::max<std::int64_t>(0, own);
    package = std::max(package, all);  // each core repeats it
  }
  if (clocks > 0) facts.mhz = khz / kKilo / clocks;
  if (counts) facts.throttled_times = cores + package;
  return facts;
}

}  // namespace ft
