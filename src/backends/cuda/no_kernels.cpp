// A build without NVRTC (`tools/setup cuda` installs it) has no kernels; make_cuda_backend reports that.
#include "backends/cuda/kernel_images.h"

namespace ft::cuda {

std::span<const std::byte> kernel_bytes() { return {}; }

}  // namespace ft::cuda
