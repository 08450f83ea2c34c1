// Reading ahead: a worker that waits at a barrier fetches the weights that it multiplies next, so that the
// memory is busy while the slowest worker finishes. Only their first bytes, which stay in its core's second
// cache. It changes no result. Owner: the executable. Thread: a worker has its own place. Cost: some
// prefetches while it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft::cpu {

class ReadAhead {
 public:
  using Pieces = std::vector<std::span<const std::byte>>;

  /// pieces[operation][worker]: what a worker reads in every step, in its order.
  void plan(std::vector<std::vector<Pieces>> pieces, int workers);
  /// At the barrier after an operation: fetches a few lines of the next weights; false if that is enough.
  bool fetch(std::size_t operation, int worker);

 private:
  static constexpr std::int64_t kMostBytes = 64 << 10;  // a fraction of a second cache
  /// Where a worker is in what it reads next.
  struct alignas(64) Place {
    std::size_t operation = 0, piece = 0;
    std::int64_t at = 0, left = 0;
  };

  std::vector<std::vector<Pieces>> pieces_;
  std::vector<std::size_t> next_;  // by operation: the first after it that reads weights
  std::vector<Place> places_;      // [workers]
};

}  // namespace ft::cpu
