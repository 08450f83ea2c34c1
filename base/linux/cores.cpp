#include <fstream>
#include <sched.h>
#include <set>
#include <string>
#include <utility>

#include "base/thread_pool.h"

namespace ft {
namespace {

int read_number(const std::string& path) {
  std::ifstream file(path);
  int number = -1;
  file >> number;
  return number;
}

}  // namespace

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    std::set<std::pair<int, int>> seen;  // package, core
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) continue;
      const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      const int core = read_number(topology + "core_id");
      const int package = read_number(topology + "physical_package_id");
      if (core < 0 || seen.emplace(package, core).second) cores.push_back(cpu);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

}  // namespace ft
