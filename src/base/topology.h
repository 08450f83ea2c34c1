// The processor's cores as the system describes them: hardware threads of one core, fast and slow cores of a
// hybrid processor, memory nodes. Linux describes them in files; they are read from any folder, so that tests
// can describe other machines. Thread: any. Cost: a few small files for each core.
#pragma once

#include <string>
#include <vector>

namespace ft {

/// A hardware thread.
struct Core {
  int cpu = 0;              // its number
  int package = 0, id = 0;  // of the physical core
  int node = 0;             // the nearest memory node
  int capacity = 0;         // relative speed; 0: unknown
};

/// "0-3,8,10-11"; an unreadable part ends the list.
std::vector<int> read_cpu_list(const std::string& text);

/// The cores of the hardware threads `allowed`. devices: "/sys/devices" or a folder like it.
std::vector<Core> read_cores(const std::string& devices, const std::vector<int>& allowed);

/// One hardware thread of each physical core, of a hybrid processor only its fastest cores: a slow one would
/// hold up all others at every barrier. In order of memory nodes, so that neighbours share one.
std::vector<Core> cores_for_workers(std::vector<Core> cores);

/// Memory nodes that the cores are near to.
int memory_nodes(const std::vector<Core>& cores);

/// The hardware threads that this process may use on this machine, and the cores for workers, at least one.
/// macOS does not name its cores, so its numbers only count them.
std::vector<Core> allowed_cores();
std::vector<Core> worker_cores();

}  // namespace ft
