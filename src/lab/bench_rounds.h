// The cost of a round of one sequence by its rows and by the length of its context, compared with the minimum
// that memory allows: the curves of `foretoken bench --drafters --html`. Rounds run on a synthetic sequence
// in a separate decoder. Thread: the caller's, while no engine uses the backend. Errors: as Decoder.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "lab/measured_model.h"

namespace ft {

/// At one length of the context.
struct RoundCosts {
  struct Point {
    int rows = 0;
    double ms = 0;  // the fastest of several rounds
  };
  std::int64_t context = 0;  // tokens
  std::vector<Point> points;
  double limit_ms = 0;  // time to read the bytes of one row, at the measured bandwidth
};

/// For contexts up to `longest` tokens.
Result<std::vector<RoundCosts>> measure_rounds(const MeasuredModel& loaded, std::int64_t longest,
                                               const std::atomic<bool>& stopped);

}  // namespace ft
