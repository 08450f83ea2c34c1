// The read bandwidth of main memory, which limits decoding. All workers read a block of twice the last-level
// caches, with the widest loads and on huge pages, as weights are read. A probe takes about 20 ms. The
// constructor throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "program/backend.h"

namespace ft {

/// Bytes that a probe reads, from the bytes of the last-level caches; at most a quarter of the free memory.
std::size_t probe_bytes(std::int64_t last_cache, std::int64_t free_memory);

class BandwidthProbe {
 public:
  /// threads: 0 means one per core. With a backend that has separate memory, that memory is measured.
  explicit BandwidthProbe(int threads, Backend* backend = nullptr);
  ~BandwidthProbe();
  BandwidthProbe(const BandwidthProbe&) = delete;
  BandwidthProbe& operator=(const BandwidthProbe&) = delete;

  /// Measures now, in 10^9 bytes per second.
  double gb_per_s();

 private:
  ThreadPool pool_;
  Backend* backend_;
  std::size_t bytes_;
  void* data_;  // [bytes_]
};

}  // namespace ft
