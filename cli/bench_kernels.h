// Times one instruction at several numbers of rows beside the read bandwidth, interleaved: row counts take
// turns, a bandwidth probe before each, so that a slow moment hits all of them. Owner: bench_kernels_command.
// Thread: the caller's is the engine thread. Cost: packing the copies, then milliseconds a sample. Errors:
// those of compile (kUnsupported for a format that the backend does not take).
#pragma once

#include <string>
#include <vector>

#include "cli/bandwidth.h"
#include "cli/kernel_cases.h"
#include "program/backend.h"

namespace ft::cli {

struct KernelFigures {
  KernelCase kernel;
  int copies = 0, rows = 0;
  double ms = 0;               // of one instruction, median
  double t_over_t1 = 0;        // to the fewest rows that were measured
  double gb_per_s = 0;         // of what must come from memory; 0: nothing must
  double bandwidth_share = 0;  // median over the samples
  double read_gb_per_s = 0;    // the machine's, median
  double gmac_per_s = 0;       // 0: not counted
};

class KernelBench {
 public:
  KernelBench(Backend& backend, int threads, int repeats, std::int64_t context)
      : backend_(backend), probe_(threads), repeats_(repeats), context_(context), pool_(0) {}

  /// One line for each of `row_counts`, which are ascending.
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

}  // namespace ft::cli
