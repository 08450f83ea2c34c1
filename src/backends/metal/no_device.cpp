// Where there is no Metal: every system but macOS.
#include "backends/metal/device.h"

namespace ft::metal {

Result<std::shared_ptr<Device>> open_metal_device(const std::string&) {
  return Error{Code::kNotFound,
               "metal backend: it runs on the GPU of a Mac with Apple silicon, and this is not one; use "
               "--backend cpu"};
}

}  // namespace ft::metal
