// The one clock of measurements: monotonic nanoseconds. Below sched/ only code that was asked to measure
// reads it.
#pragma once

#include <chrono>
#include <cstdint>

namespace ft {

inline std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double steady_ms() { return static_cast<double>(steady_ns()) * 1e-6; }

}  // namespace ft
