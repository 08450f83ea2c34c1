// A timed backend for benches: it times every step, so that the time outside the backend is known, and can
// attach a profiler. It owns the wrapped backend; watch and profiler must outlive it. A step reads the clock
// twice.
#pragma once

#include <memory>

#include "program/backend.h"

namespace ft {

/// Time that the host waited for steps, over all executables: inside the steps of a backend that runs them at
/// once, in collect() for a device.
struct StepWatch {
  std::int64_t run_ns = 0;
  std::int64_t submit_ns = 0;  // in submit() since the last collect: the steps themselves, if they run there
  std::int64_t steps = 0;
};

/// `profiler` may be null.
std::unique_ptr<Backend> timed(std::unique_ptr<Backend> backend, StepWatch& watch, Profiler* profiler);

}  // namespace ft
