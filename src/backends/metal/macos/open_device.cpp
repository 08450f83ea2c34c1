#include "backends/metal/macos/device.h"

namespace ft::metal {

Result<std::shared_ptr<Device>> open_metal_device(const std::string& pipeline_folder) {
  return open_mac_gpu(pipeline_folder);
}

}  // namespace ft::metal
