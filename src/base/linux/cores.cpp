#include <sched.h>

#include "base/topology.h"

namespace ft {

std::vector<Core> allowed_cores() {
  std::vector<int> allowed;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) allowed.push_back(cpu);
  }
  if (allowed.empty()) allowed.push_back(0);
  return read_cores("/sys/devices", allowed);
}

std::vector<Core> worker_cores() { return cores_for_workers(allowed_cores()); }

}  // namespace ft
