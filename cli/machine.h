// The machine that we run on, as Linux tells: processor, features, memory and its limits, threads; and what
// is wrong with it for this program. Thread: any. Cost: a few files of /proc and /sys; the bandwidth probe
// reads memory for about a fifth of a second. Errors: none; what cannot be read stays empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::cli {

struct Machine {
  std::string system;                 // "Linux 6.1 x86_64"
  std::string processor;              // model name
  std::vector<std::string> features;  // those that kernels here care about
  int logical_cores = 0;              // that this process may use
  double cpu_limit = 0;               // cores that the control group grants; 0: no limit
  std::int64_t memory_total = 0, memory_available = 0, memory_limit = 0;  // bytes; limit 0: none
  std::int64_t memory_used_of_limit = 0;
  std::string huge_pages;    // "always", "madvise", "never"
  std::string governor;      // of core 0; empty if there is none to read
  double read_gb_per_s = 0;  // 0: not probed

  /// What a model may take now.
  std::int64_t free_bytes() const;
};

Machine read_machine();
/// Read bandwidth of main memory with that many threads, GB/s.
double probe_read_bandwidth(int threads);
/// Memory that this process holds now; 0 if the system does not say.
std::int64_t resident_bytes();

struct Finding {
  enum class Kind { kGood, kWarning, kProblem };
  Kind kind = Kind::kGood;
  std::string what, mend;  // mend: how, empty if nothing is to be done
};

std::vector<Finding> judge_machine(const Machine& machine, int threads);

}  // namespace ft::cli
