// A build without NVRTC (tools/setup cuda brings it) has no kernels; make_cuda_backend says so.
#include "backends/cuda/kernel_images.h"

namespace ft::cuda {

std::span<const std::byte> kernel_bytes() { return {}; }

}  // namespace ft::cuda
