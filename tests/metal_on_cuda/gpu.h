// An NVIDIA GPU as a device of the metal backend, for the check and the timing of its kernels: memory that
// the host sees too, each launch waited for. Errors: open_gpu as Result; a launch throws what the driver
// says.
#pragma once

#include <span>

#include "backends/metal/device.h"

namespace ft::metal {

class Gpu : public Device {
 public:
  /// The launches until the next finish() become one graph, which finish() replays and times.
  virtual void time_next_step() = 0;
  /// Microseconds of that graph on the GPU.
  virtual double microseconds() const = 0;
};

/// image: what tools/gpu/metal_kernels.py wrote.
Result<std::shared_ptr<Gpu>> open_gpu(std::span<const char> image);

}  // namespace ft::metal
