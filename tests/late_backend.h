// For tests: wraps another backend and behaves like one with a separate device. Submitted steps run at
// collect() and not before; buffers that the host may not read yet hold garbage; tokens that the host writes
// into the round's buffer do not reach the device; rows are visible only through read(), and samples follow.
#pragma once

#include <atomic>
#include <memory>

#include "program/backend.h"

namespace ft::test {

/// Counts of its steps, for the test.
struct LateReport {
  int collects = 0;                // collects that found waiting steps
  int steps = 0;                   // that ran
  int waiting = 0;                 // that were submitted and did not run yet
  int most_waiting = 0;            // steps that one collect ran
  int late_samples = 0;            // steps that got their samples after they were submitted
  std::atomic<bool> lost = false;  // set by the test: every collect throws BackendLost from now on
};

/// `report` must outlive the backend.
std::unique_ptr<Backend> make_late_backend(std::unique_ptr<Backend> inner, LateReport& report);

}  // namespace ft::test
