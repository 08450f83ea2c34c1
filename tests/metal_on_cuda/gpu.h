// An NVIDIA GPU as a device of the metal backend, to check and time its kernels: memory is shared with the
// host, and each launch is waited for. Errors: open_gpu returns a Result; a launch throws the message of the
// driver.
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

/// image: the output of tools/gpu/metal_kernels.py.
Result<std::shared_ptr<Gpu>> open_gpu(std::span<const char> image);

}  // namespace ft::metal
