// Linears of many rows with Hopper's asynchronous matrix instruction (sm90_gemm.cuh) for other kinds of
// weights than 4 bits in groups of 64 with scales of bfloat16; and rows of groups of 32 as these read them.
#include "backends/cuda/kernels/hopper_kinds.h"
#include "backends/cuda/kernels/sm90_gemm.cuh"

#define FT_ASYNC_GEMM_OF(Bits, Group, Scales, Rows)                                 \
  FT_KERNEL_SHARING(async_gemm_##Bits##_##Group##_##Scales##_##Rows, AsyncGemmArgs, \
                    kAsyncThreads + kAsyncCopiers, 1) {                             \
    FT_DYNAMIC(memory);                                                             \
    async_gemm<StreamedWeights<Bits, Group, Scales>, Rows>(p, memory);              \
  }
#define FT_ASYNC_GEMM_KIND(Bits, Group, Scales) \
  FT_ASYNC_GEMM_OF(Bits, Group, Scales, 64) FT_ASYNC_GEMM_OF(Bits, Group, Scales, 80)

namespace ft::cuda {

FT_HOPPER_KINDS(FT_ASYNC_GEMM_KIND)

// [block of rows][group]: codes as [2 parts][rows][16 bytes], then scales as they are, [rows / 8][16]. Part c
// of a row has the words c, c + 2, c + 4, c + 6 of its group: lane t of a packed record multiplies words 2 t
// and 2 t + 1 (layout.cuh). Rows beyond the last are zeros. x: four groups; y: 64 rows; thread: a row and
// group.
FT_KERNEL(swizzle_activations_32, SwizzleArgs, 256) {
  constexpr int kCodes = 32;  // bytes
  begin_kernel();
  const int row = (int)blockIdx.y * 64 + warp_of() * 8 + lane_of() % 8,
            group = (int)blockIdx.x * 4 + lane_of() / 8;
  if (group >= p.groups || row / p.tile_rows * p.tile_rows >= p.rows) return;
  const int in_tile = row % p.tile_rows;
  u8* to = p.out + ((long long)(row / p.tile_rows) * p.groups + group) * p.tile_rows * swizzled_bytes(kCodes);
  uint4 a = make_uint4(0, 0, 0, 0), b = a;
  if (row < p.rows) {
    const uint4* const from = (const uint4*)(p.codes + ((long long)row * p.groups + group) * kCodes);
    a = from[0], b = from[1];
  }
  *(uint4*)(to + in_tile * 16) = make_uint4(a.x, a.z, b.x, b.z);
  *(uint4*)(to + (p.tile_rows + in_tile) * 16) = make_uint4(a.y, a.w, b.y, b.w);
  float2* scales = (float2*)(to + p.tile_rows * kCodes + in_tile / 8 * kGroupScaleBytes) + row % 8;
  const long long from = ((long long)(row / 8) * p.groups + group) * kScaleFloats;
  *scales = row / 8 * 8 < p.rows ? *((const float2*)(p.scales + from) + row % 8) : make_float2(0, 0);
}

}  // namespace ft::cuda
