// The streaming linear (hopper_linear.cuh) with rows of halves (half.cuh), for 4-bit weights in groups of 64.
// One kernel serves all widths.
#include "backends/cuda/kernels/hopper_linear.cuh"

#define FT_STREAM_HALF(Scales, Rows)                                          \
  FT_KERNEL(stream_half_4_64_##Scales##_##Rows, StreamArgs, kStreamThreads) { \
    FT_DYNAMIC(memory);                                                       \
    stream<HalfWeights<Scales>, Rows, 0, false>(p, memory);                   \
  }
#define FT_STREAMS_HALF(Scales) \
  FT_STREAM_HALF(Scales, 2) FT_STREAM_HALF(Scales, 4) FT_STREAM_HALF(Scales, 8) FT_STREAM_HALF(Scales, 16)

namespace ft::cuda {

FT_STREAMS_HALF(0)
FT_STREAMS_HALF(2)

}  // namespace ft::cuda
