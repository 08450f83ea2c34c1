// Reading ahead: a worker that waits at a barrier fetches the weights that it multiplies next, so that the
// memory is busy while the slowest worker finishes. It fetches only their first bytes, which stay in its
// core's second-level cache. It changes no result. Owner: the executable. Thread: each worker uses its own
// place. Cost: some prefetches while it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/pack/pack.h"

namespace ft::cpu {

class ReadAhead {
 public:
  using Weights = std::vector<const Packed*>;

  /// weights[operation]: weights whose blocks every worker reads in every step, in this order.
  void plan(std::vector<Weights> weights, int workers);
  /// At the barrier after an operation: `worker` of `workers` fetches a few lines of the next weights; false
  /// if that is enough.
  bool fetch(std::size_t operation, int worker, int workers);

 private:
  static constexpr std::int64_t kMaxBytes = 64 << 10;  // a fraction of a second cache
  /// A worker's place in its next reads.
  struct alignas(64) Place {
    std::size_t operation = 0, weight = 0;
    std::int64_t at = 0, left = 0;
  };

  std::vector<Weights> weights_;   // by operation
  std::vector<std::size_t> next_;  // by operation: the first after it that reads weights
  std::vector<Place> places_;      // [workers]
};

}  // namespace ft::cpu
