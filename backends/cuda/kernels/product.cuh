// Parts of products that linear.cu and experts.cu share: packed words as operands of the matrix
// instruction, sums of a group, plain weights as floats.
#pragma once

#include "backends/cuda/kernels/layout.cuh"

namespace ft::cuda {

template <int Bits, int Steps>
FT_DEVICE void load_words(const u8* record, int lane, u32 (&a)[Steps][4]) {
  FT_UNROLL for (int j = 0; j < Steps; j++) {
    if (Bits == 4) {
      const uint2 w = *(const uint2*)(record + word_at(4, lane, j, 0, Steps));
      a[j][0] = w.x & 0x0f0f0f0fu, a[j][1] = w.y & 0x0f0f0f0fu;
      a[j][2] = w.x >> 4 & 0x0f0f0f0fu, a[j][3] = w.y >> 4 & 0x0f0f0f0fu;
    } else {
      const uint4 w = *(const uint4*)(record + word_at(8, lane, j, 0, Steps));
      a[j][0] = w.x, a[j][1] = w.y, a[j][2] = w.z, a[j][3] = w.w;
    }
  }
}

/// acc += one group of a tile: acc[0], acc[1] output quad of rows 2t, 2t + 1; acc[2], acc[3] output quad + 8.
FT_DEVICE void add_group(float (&acc)[4], const int (&dot)[4], const float (&scale)[2],
                         const float (&bias)[2], float4 x) {
  acc[0] = fma_(bias[0], x.z, fma_((float)dot[0], scale[0] * x.x, acc[0]));
  acc[1] = fma_(bias[0], x.w, fma_((float)dot[1], scale[0] * x.y, acc[1]));
  acc[2] = fma_(bias[1], x.z, fma_((float)dot[2], scale[1] * x.x, acc[2]));
  acc[3] = fma_(bias[1], x.w, fma_((float)dot[3], scale[1] * x.y, acc[3]));
}

/// Eight plain weights.
FT_DEVICE void load_weights(const void* weights, int wide, long long at, float (&w)[8]) {
  if (wide) {
    const float4 a = *(const float4*)((const float*)weights + at),
                 b = *(const float4*)((const float*)weights + at + 4);
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w, w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
  } else {
    const uint4 v = *(const uint4*)((const u16*)weights + at);
    w[0] = bf16_low(v.x), w[1] = bf16_high(v.x), w[2] = bf16_low(v.y), w[3] = bf16_high(v.y);
    w[4] = bf16_low(v.z), w[5] = bf16_high(v.z), w[6] = bf16_low(v.w), w[7] = bf16_high(v.w);
  }
}

}  // namespace ft::cuda
