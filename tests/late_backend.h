// A backend that behaves as one with a device of its own, on top of any other one, for tests: submitted steps
// run at collect() and not before, what the host may not see yet holds nonsense, tokens that the host writes
// into the round's buffer do not reach the device, rows can be seen through read() alone, and samples follow.
#pragma once

#include <atomic>
#include <memory>

#include "program/backend.h"

namespace ft::test {

/// What its steps did, for the test.
struct LateReport {
  int collects = 0;                // that found steps waiting
  int steps = 0;                   // that ran
  int waiting = 0;                 // that were submitted and did not run yet
  int most_waiting = 0;            // steps that one collect ran
  int late_samples = 0;            // steps that got their samples after they were submitted
  std::atomic<bool> lost = false;  // set by the test: every collect throws BackendLost from now on
};

/// `report` must outlive the backend.
std::unique_ptr<Backend> make_late_backend(std::unique_ptr<Backend> inner, LateReport& report);

}  // namespace ft::test
