// The streaming linear (hopper_linear.cuh) with rows of halves (half.cuh). One kernel serves all widths.
#include "backends/cuda/kernels/hopper_kinds.h"
#include "backends/cuda/kernels/hopper_linear.cuh"

#define FT_STREAM_HALF(Bits, Group, Scales, Rows)                                           \
  FT_KERNEL(stream_half_##Bits##_##Group##_##Scales##_##Rows, StreamArgs, kStreamThreads) { \
    FT_DYNAMIC(memory);                                                                     \
    stream<HalfWeights<Bits, Group, Scales>, Rows, 0, false>(p, memory);                    \
  }
#define FT_STREAMS_HALF(Bits, Group, Scales) \
  FT_STREAM_HALF(Bits, Group, Scales, 2)     \
  FT_STREAM_HALF(Bits, Group, Scales, 4)     \
  FT_STREAM_HALF(Bits, Group, Scales, 8)     \
  FT_STREAM_HALF(Bits, Group, Scales, 16)

namespace ft::cuda {

FT_HOPPER_HALF_KINDS(FT_STREAMS_HALF)

}  // namespace ft::cuda
