// The device on systems without Metal: every system but macOS.
#include "backends/metal/device.h"

namespace ft::metal {

Result<std::shared_ptr<Device>> open_metal_device(const std::string&) {
  return Error{Code::kNotFound, "metal backend: it needs a Mac with Apple silicon; use --backend cpu"};
}

}  // namespace ft::metal
