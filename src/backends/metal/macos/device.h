// The GPU of a Mac through whatever Runtime::get() gives: Metal there, a fake in tests.
#pragma once

#include <memory>
#include <string>

#include "backends/metal/device.h"

namespace ft::metal {

/// As open_metal_device().
Result<std::shared_ptr<Device>> open_mac_gpu(const std::string& pipeline_folder);

}  // namespace ft::metal
