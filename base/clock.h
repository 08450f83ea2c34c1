// The one clock of measurements: monotonic nanoseconds. Below sched/ only those read it who were asked to
// measure.
#pragma once

#include <chrono>
#include <cstdint>

namespace ft {

inline std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace ft
