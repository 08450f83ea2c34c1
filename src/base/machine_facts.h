// Facts about processor and memory from the system: a source for Linux (base/linux) and one for macOS
// (base/macos). Unreadable values stay empty or 0. Thread: any. Cost: reads a few small files or counters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft {

struct ProcessorFacts {
  std::string name;                   // "AMD EPYC 9R45", "Apple M4 Pro"
  std::vector<std::string> features;  // those that the kernels use, by Linux's names
  int logical_cores = 0;              // available to this process
  std::int64_t last_cache = 0;        // bytes of all caches of the last level together
};

struct MemoryFacts {
  std::int64_t total = 0, available = 0;  // bytes; available: without swapping, caches counted as free
};

/// Seconds since the start of the system, summed over all cores.
struct ProcessorTimes {
  double busy_s = 0, all_s = 0;
};

ProcessorFacts processor_facts();
MemoryFacts memory_facts();
ProcessorTimes processor_times();
/// Resident memory of this process, bytes.
std::int64_t resident_bytes();

/// Bytes of all caches of the last level, from a folder like /sys/devices/system/cpu. For base/linux and its
/// test.
std::int64_t last_cache_of(const std::string& cpus);

/// From the first line of /proc/stat; `ticks` a second. For base/linux and its test.
ProcessorTimes times_of_proc_stat(const std::string& text, double ticks);

}  // namespace ft
