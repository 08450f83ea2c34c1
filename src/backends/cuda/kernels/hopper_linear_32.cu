// The streaming linear (hopper_linear.cuh) of weights in groups of 32: 4 and 8 bits, scales in bfloat16 and
// in float. One kernel serves all widths: stages are short, so little is won by the size of a piece as a
// constant.
#include "backends/cuda/kernels/hopper_linear.cuh"

#define FT_STREAM_32(Bits, Wide, Rows)                                        \
  FT_KERNEL(stream_##Bits##_32_##Wide##_##Rows, StreamArgs, kStreamThreads) { \
    FT_DYNAMIC(memory);                                                       \
    stream<StreamedWeights<Bits, 32, Wide>, Rows, 0, false>(p, memory);       \
  }
#define FT_STREAMS_32(Bits, Wide) \
  FT_STREAM_32(Bits, Wide, 2)     \
  FT_STREAM_32(Bits, Wide, 4) FT_STREAM_32(Bits, Wide, 8) FT_STREAM_32(Bits, Wide, 16)

namespace ft::cuda {

FT_STREAMS_32(4, 0)
FT_STREAMS_32(4, 1)
FT_STREAMS_32(8, 0)
FT_STREAMS_32(8, 1)

}  // namespace ft::cuda
