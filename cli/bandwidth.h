// The machine's read bandwidth, as the limit that decoding is compared with: all workers read a block that is
// larger than any last-level cache, with the widest loads of the processor and on huge pages, as the weights
// are read. Owner: who measures. Thread: the main thread; workers sleep between probes. Cost: the block, and
// some 20 ms a probe. Errors: the constructor throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

namespace ft::cli {

class BandwidthProbe {
 public:
  /// threads: 0 is one per core.
  explicit BandwidthProbe(int threads);
  ~BandwidthProbe();
  BandwidthProbe(const BandwidthProbe&) = delete;
  BandwidthProbe& operator=(const BandwidthProbe&) = delete;

  /// 10^9 bytes a second, now.
  double gb_per_s();

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  ThreadPool pool_;
  void* data_;  // kBytes
};

}  // namespace ft::cli
