// The machine as the system describes it: processor, features, memory and its limits, threads, and its
// problems for this program. The bandwidth probe takes about 0.2 s. Unreadable values stay empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/power.h"

namespace ft {

struct Machine {
  std::string system;                 // "Linux 6.1 x86_64"
  std::string processor;              // model name
  std::vector<std::string> features;  // those that the kernels use
  int logical_cores = 0;              // available to this process
  double cpu_limit = 0;               // cores granted by the control group; 0: no limit
  std::int64_t memory_total = 0, memory_available = 0, memory_limit = 0;  // bytes; limit 0: none
  std::int64_t memory_used_of_limit = 0;
  std::string huge_pages;  // "always", "madvise", "never"
  PowerFacts power;
  double read_gb_per_s = 0;  // 0: not probed

  /// Memory that a model may use now.
  std::int64_t free_bytes() const;
};

Machine read_machine();
/// Read bandwidth of main memory with `threads` threads, in GB/s.
double probe_read_bandwidth(int threads);

struct Finding {
  enum class Kind { kGood, kWarning, kProblem };
  Kind kind = Kind::kGood;
  std::string what, repair;  // repair: the next step, or empty
};

std::vector<Finding> check_machine(const Machine& machine, int threads);
/// Whether the processor slowed itself down in work between the two.
std::vector<Finding> check_throttling(const PowerFacts& before, const PowerFacts& after);

}  // namespace ft
