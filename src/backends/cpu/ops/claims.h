// Claims: counts the taken and the finished pieces of one worker's part of an operation. Its owner takes
// pieces from the first on; a worker that waits at a barrier takes the remaining ones, even if the owner has
// not begun. The number of the step is part of each claim, so nothing is cleared between two steps. Owner:
// the operation, one for each worker. Thread: any worker. Cost: one atomic operation to take, one to finish.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/thread_pool.h"

namespace ft::cpu {

class alignas(64) Claims {  // workers write different ones: each has its cache line
 public:
  static constexpr int kMaxPieces = 4095;

  /// The next free one of `pieces` pieces in this step; -1: there is none. Steps are numbered from 1.
  int take(std::uint64_t step, int pieces) {
    // The barriers order the rest: inputs were written before the last one, outputs are read after finish().
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    while (true) {
      const std::uint64_t now = seen >> kStepShift == step ? seen : step << kStepShift;
      const auto piece = static_cast<int>(now & kCount);
      if (piece >= pieces) return -1;
      if (word_.compare_exchange_weak(seen, now + 1, std::memory_order_relaxed)) return piece;
    }
  }

  /// Marks a taken piece as done: a worker that waits for it then sees its outputs.
  void finish() { word_.fetch_add(std::uint64_t{1} << kDoneShift, std::memory_order_release); }

  /// Returns when all pieces of this step are done. The owner calls it after its last take().
  void wait(int pieces) const {
    constexpr int kSpins = 2000;  // then the worker with the last piece may need this core
    for (int spins = 0; done() != pieces; ++spins) {
      if (spins < kSpins) {
        relax();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr int kDoneShift = 12, kStepShift = 24;
  static constexpr std::uint64_t kCount = (1U << kDoneShift) - 1;

  int done() const { return static_cast<int>(word_.load(std::memory_order_acquire) >> kDoneShift & kCount); }

  std::atomic<std::uint64_t> word_{0};  // step, pieces done, pieces taken
};

}  // namespace ft::cpu
