// The kernels for Hopper as C++: the same text that NVRTC compiles for it.
#include "backends/cuda/emulator/fibers.h"

#pragma GCC diagnostic ignored "-Wcast-align"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // addends are read where they were
#endif

#include "backends/cuda/kernels/hopper_half.cu"
#include "backends/cuda/kernels/hopper_linear.cu"
#include "backends/cuda/kernels/hopper_linear_kinds.cu"
#include "backends/cuda/kernels/sm90_gemm.cu"
#include "backends/cuda/kernels/sm90_gemm_kinds.cu"
#include "backends/cuda/kernels/sm90_half.cu"

namespace ft::cuda {

void link_hopper_kernels() {}

}  // namespace ft::cuda
