// Performance cores only: an efficiency core at a barrier would hold up all others. macOS names no cores, so
// these are numbers to count. Compiled on Linux (tools/check --only mac); it has not run on a Mac yet.
#include <sys/sysctl.h>

#include "base/topology.h"

namespace ft {
namespace {

/// The value of the first name that the system knows.
std::vector<Core> counted(std::initializer_list<const char*> names) {
  int count = 0;
  for (const char* name : names) {
    std::size_t size = sizeof count;
    if (::sysctlbyname(name, &count, &size, nullptr, 0) == 0 && count > 0) break;
  }
  std::vector<Core> cores(static_cast<std::size_t>(count > 0 ? count : 1));
  for (std::size_t i = 0; i < cores.size(); ++i) cores[i].cpu = cores[i].id = static_cast<int>(i);
  return cores;
}

}  // namespace

std::vector<Core> allowed_cores() { return counted({"hw.logicalcpu"}); }
std::vector<Core> worker_cores() { return counted({"hw.perflevel0.physicalcpu", "hw.physicalcpu"}); }

}  // namespace ft
