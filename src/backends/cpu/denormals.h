// Treats denormal numbers as zeros while a worker runs a program. A decaying recurrent state is full of them,
// and each costs a hundred cycles or more. The setting belongs to a thread and is the same on every worker,
// so results stay a function of the row alone.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ft::cpu {

/// While it lives, its thread treats denormal numbers as zeros, or exactly if not `on`.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool on = true) {
#if defined(__x86_64__)
    const unsigned now = _mm_getcsr();
    constexpr unsigned kFlushAndZero = 0x8040;
    _mm_setcsr(on ? now | kFlushAndZero : now & ~kFlushAndZero);
    saved_ = now;
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;
    asm volatile("msr fpcr, %0" : : "r"(on ? saved_ | kFlush : saved_ & ~kFlush));
#else
    static_cast<void>(on);
#endif
  }
  ~FlushDenormals() {
#if defined(__x86_64__)
    _mm_setcsr(static_cast<unsigned>(saved_));
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"(saved_));
#endif
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  std::uint64_t saved_ = 0;
};

}  // namespace ft::cpu
