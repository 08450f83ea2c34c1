// The read bandwidth of main memory, which limits decoding. All workers read a block larger than any
// last-level cache, with the widest loads and on huge pages, as weights are read. A probe takes about 20 ms.
// The constructor throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "program/backend.h"

namespace ft {

class BandwidthProbe {
 public:
  /// threads: 0 means one per core. With a backend that has a memory of its own, that one is measured.
  explicit BandwidthProbe(int threads, Backend* backend = nullptr);
  ~BandwidthProbe();
  BandwidthProbe(const BandwidthProbe&) = delete;
  BandwidthProbe& operator=(const BandwidthProbe&) = delete;

  /// Measures now, in 10^9 bytes per second.
  double gb_per_s();

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  ThreadPool pool_;
  Backend* backend_;
  void* data_;  // kBytes
};

}  // namespace ft
