// The linear of many rows by Hopper's asynchronous matrix instruction (sm90_gemm.cuh) for 4-bit weights in
// groups of 64.
#include "backends/cuda/kernels/sm90_gemm.cuh"

#define FT_ASYNC_GEMM(Rows)                                                               \
  FT_KERNEL_SHARING(async_gemm_##Rows, AsyncGemmArgs, kAsyncThreads + kAsyncCopiers, 1) { \
    FT_DYNAMIC(memory);                                                                   \
    async_gemm<StreamedWeights<4, 64, 0>, Rows>(p, memory);                               \
  }

namespace ft::cuda {

FT_ASYNC_GEMM(64)
FT_ASYNC_GEMM(80)
FT_ASYNC_GEMM(96)

}  // namespace ft::cuda
