// Linears and experts of packed weights with rows of halves (half.cuh), for any shape and on any GPU.
#include "backends/cuda/kernels/expert_tile.cuh"
#include "backends/cuda/kernels/half.cuh"
#include "backends/cuda/kernels/linear_tile.cuh"

#define FT_HALF(Bits, Group, Scales)                                                            \
  FT_LINEAR_OF(linear_half_##Bits##_##Group##_##Scales##_1, 1, HalfRecord<Bits, Group, Scales>) \
  FT_LINEAR_OF(linear_half_##Bits##_##Group##_##Scales##_4, 4, HalfRecord<Bits, Group, Scales>) \
  FT_EXPERT_OF(expert_half_##Bits##_##Group##_##Scales, HalfRecord<Bits, Group, Scales>)
#define FT_HALVES(Bits, Group) FT_HALF(Bits, Group, 0) FT_HALF(Bits, Group, 1)

namespace ft::cuda {

FT_HALVES(4, 32)
FT_HALVES(4, 64)
FT_HALVES(4, 128)
FT_HALVES(8, 32)
FT_HALVES(8, 64)
FT_HALVES(8, 128)
FT_HALF(4, 32, 2)
FT_HALF(8, 32, 2)
FT_HALF(4, 64, 2)
FT_HALF(8, 64, 2)
FT_HALF(4, 16, 1)
FT_HALF(8, 16, 1)
FT_LINEAR_OF(linear_half_e2m1_1, 1, SmallFloatHalfRecord)
FT_LINEAR_OF(linear_half_e2m1_4, 4, SmallFloatHalfRecord)
FT_EXPERT_OF(expert_half_e2m1, SmallFloatHalfRecord)

}  // namespace ft::cuda
