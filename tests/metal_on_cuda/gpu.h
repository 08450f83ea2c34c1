// An NVIDIA GPU as a device of the metal backend, for the check of its kernels: memory that the host sees
// too, each launch waited for. Errors: open_gpu as Result; a launch throws what the driver says.
#pragma once

#include <span>

#include "backends/metal/device.h"

namespace ft::metal {

/// image: what tools/gpu/metal_kernels.py wrote.
Result<std::shared_ptr<Device>> open_gpu(std::span<const char> image);

}  // namespace ft::metal
