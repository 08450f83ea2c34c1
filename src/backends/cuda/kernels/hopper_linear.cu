// The streaming linear (hopper_linear.cuh) for 4-bit weights in groups of 64: a kernel for each piece
// size, for equal and for unequal slices.
#include "backends/cuda/kernels/hopper_linear.cuh"

#define FT_STREAM(Rows, Chunk)                                            \
  FT_KERNEL(stream_##Rows##_##Chunk, StreamArgs, kStreamThreads) {        \
    FT_DYNAMIC(memory);                                                   \
    stream<StreamedWeights<4, 64, 0>, Rows, Chunk, true>(p, memory);      \
  }                                                                       \
  FT_KERNEL(stream_uneven_##Rows##_##Chunk, StreamArgs, kStreamThreads) { \
    FT_DYNAMIC(memory);                                                   \
    stream<StreamedWeights<4, 64, 0>, Rows, Chunk, false>(p, memory);     \
  }
#define FT_STREAMS(Rows) FT_STREAM(Rows, 2) FT_STREAM(Rows, 4) FT_STREAM(Rows, 5) FT_STREAM(Rows, 6)

namespace ft::cuda {

FT_STREAMS(2)
FT_STREAMS(4)
FT_STREAMS(8)
FT_STREAMS(16)

}  // namespace ft::cuda
