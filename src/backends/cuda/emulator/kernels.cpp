// The kernels as C++: the same text that NVRTC compiles for GPUs.
#include "backends/cuda/emulator/fibers.h"

#pragma GCC diagnostic ignored "-Wcast-align"

#include "backends/cuda/kernels/attend.cu"
#include "backends/cuda/kernels/attend_prepare.cu"
#include "backends/cuda/kernels/delta.cu"
#include "backends/cuda/kernels/delta_step.cu"
#include "backends/cuda/kernels/draft.cu"
#include "backends/cuda/kernels/experts.cu"
#include "backends/cuda/kernels/gemm.cu"
#include "backends/cuda/kernels/half.cu"
#include "backends/cuda/kernels/linear.cu"
#include "backends/cuda/kernels/mixture.cu"
#include "backends/cuda/kernels/norm.cu"
#include "backends/cuda/kernels/sample.cu"

namespace ft::cuda {

void link_kernels() {}

}  // namespace ft::cuda
