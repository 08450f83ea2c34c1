// Performance cores only: an efficiency core at a barrier would hold up all others. macOS names no cores, so
// these are numbers to count. Compiled on Linux (tools/check --only mac); it has not run on a Mac yet.
#include <sys/sysctl.h>

#include "base/thread_pool.h"

namespace ft {

std::vector<int> usable_cores() {
  int count = 0;
  for (const char* name : {"hw.perflevel0.physicalcpu", "hw.physicalcpu"}) {
    std::size_t size = sizeof count;
    if (::sysctlbyname(name, &count, &size, nullptr, 0) == 0 && count > 0) break;
  }
  std::vector<int> cores;
  for (int core = 0; core < count || core == 0; ++core) cores.push_back(core);
  return cores;
}

}  // namespace ft
