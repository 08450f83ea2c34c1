// Times one instruction at several row counts, and the read bandwidth. Row counts alternate, with a bandwidth
// probe before each, so that a slow moment affects all of them. The caller's thread is the engine thread.
#pragma once

#include <string>
#include <vector>

#include "lab/bandwidth.h"
#include "lab/kernel_cases.h"
#include "program/backend.h"

namespace ft {

struct KernelFigures {
  KernelCase kernel;
  int copies = 0, rows = 0;
  double ms = 0;               // median time of one instruction
  double t_over_t1 = 0;        // relative to the smallest measured row count
  double gb_per_s = 0;         // bytes that must come from memory; 0: none
  double bandwidth_share = 0;  // median over the samples
  double read_gb_per_s = 0;    // read bandwidth of the machine, median
  double gmac_per_s = 0;       // 0: not counted
};

class KernelBench {
 public:
  KernelBench(Backend& backend, int threads, int repeats, std::int64_t context)
      : backend_(backend), probe_(threads, &backend), repeats_(repeats), context_(context), pool_(0) {}

  /// One line for each of `row_counts`, which must ascend.
  Result<std::vector<KernelFigures>> measure(const KernelCase& kernel, const std::vector<int>& row_counts);

 private:
  struct Samples {
    std::vector<double> ms, shares;
  };
  int copies(const KernelCase& kernel) const;

  Backend& backend_;
  BandwidthProbe probe_;
  int repeats_;
  std::int64_t context_;
  SynthPool pool_;
};

std::string kernels_text(const std::vector<KernelFigures>& list);
/// [{instruction, format, shape, rows, ms, gb_per_s, bandwidth_share, t_over_t1, ...}]
std::string kernels_json(const std::vector<KernelFigures>& list);

}  // namespace ft
