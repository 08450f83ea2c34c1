// The streaming linear (hopper_linear.cuh) for every kind of weights but 4 bits in groups of 64 with
// scales of bfloat16. One kernel serves all widths: a constant piece size gains little for short stages.
#include "backends/cuda/kernels/hopper_kinds.h"
#include "backends/cuda/kernels/hopper_linear.cuh"

#define FT_STREAM_KIND(Bits, Group, Scales, Rows)                                      \
  FT_KERNEL(stream_##Bits##_##Group##_##Scales##_##Rows, StreamArgs, kStreamThreads) { \
    FT_DYNAMIC(memory);                                                                \
    stream<StreamedWeights<Bits, Group, Scales>, Rows, 0, false>(p, memory);           \
  }
#define FT_STREAM_KIND_ROWS(Bits, Group, Scales) \
  FT_STREAM_KIND(Bits, Group, Scales, 2)         \
  FT_STREAM_KIND(Bits, Group, Scales, 4)         \
  FT_STREAM_KIND(Bits, Group, Scales, 8)         \
  FT_STREAM_KIND(Bits, Group, Scales, 16)

namespace ft::cuda {

FT_HOPPER_KINDS(FT_STREAM_KIND_ROWS)
FT_HOPPER_STREAMED_KINDS(FT_STREAM_KIND_ROWS)

}  // namespace ft::cuda
