// A step with masks. The host needs a while for masks: if a device computes, the step begins first and gets
// its samples when the masks are ready (Executable::samples_later). Otherwise the masks come before it.
#pragma once

#include <span>
#include <utility>

#include "program/backend.h"

namespace ft {

/// Submits the step. `masked`: `add_masks()` has masks to write into the rows of `args.samples`; it is called
/// once. Rows of a step that began are computed even if add_masks() finds no mask for them.
template <class AddMasks>
void submit_with_masks(Executable& executable, StepArgs args, State& state, bool masked, AddMasks add_masks) {
  args.samples_follow = masked && executable.samples_later();
  if (!args.samples_follow) {
    if (masked) add_masks();
    return executable.submit(args, state);
  }
  const std::span<const SampleRow> samples = std::exchange(args.samples, {});
  executable.submit(args, state);
  add_masks();
  args.samples = samples;
  executable.submit_samples(args);
}

}  // namespace ft
