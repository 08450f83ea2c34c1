// The one clock of measurements: monotonic nanoseconds. Below sched/ only code that was asked to measure
// reads it, and the thread pool, which watches for other programs on its cores.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace ft {

inline std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double steady_ms() { return static_cast<double>(steady_ns()) * 1e-6; }

/// Nanoseconds that the calling thread had a core for. Some systems count it in coarse ticks.
inline std::int64_t thread_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace ft
