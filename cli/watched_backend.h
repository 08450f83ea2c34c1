// A backend as a bench sees it: every step is timed, so that what a round costs outside of the backend is
// known, and executables report to a profiler if one is given. Owner: it owns the backend that it wraps; the
// watch and the profiler must outlive it. Thread: the engine thread. Cost: two reads of the clock a step.
// Errors: those of the backend.
#pragma once

#include <memory>

#include "program/backend.h"

namespace ft::cli {

/// Time that the host waited for steps, of all executables together: inside the steps of a backend that runs
/// them at once, in collect() for a device.
struct StepWatch {
  std::int64_t run_ns = 0;
  std::int64_t submit_ns = 0;  // in submit() since the last collect: the steps themselves, if they run there
  std::int64_t steps = 0;
};

/// `profiler` may be null.
std::unique_ptr<Backend> watched(std::unique_ptr<Backend> backend, StepWatch& watch, Profiler* profiler);

}  // namespace ft::cli
