// Parts of products that linear.cu and experts.cu share: packed words as operands of the matrix
// instruction, sums of a group, plain weights as floats.
#pragma once

#include "backends/cuda/kernels/layout.cuh"

namespace ft::cuda {

/// Two steps' words: their low halves are one left operand, their high halves the next.
FT_DEVICE void split_halves(uint4 w, u32 (&low)[4], u32 (&high)[4]) {
  constexpr u32 kLow = 0x0f0f0f0fu;
  low[0] = w.x & kLow, low[1] = w.y & kLow, low[2] = w.z & kLow, low[3] = w.w & kLow;
  high[0] = w.x >> 4 & kLow, high[1] = w.y >> 4 & kLow, high[2] = w.z >> 4 & kLow, high[3] = w.w >> 4 & kLow;
}

template <int Bits, int Steps>
FT_DEVICE void load_words(const u8* record, int lane, u32 (&a)[Steps][4]) {
  constexpr u32 kLow = 0x0f0f0f0fu;
  if constexpr (Bits == 4 && Steps == 1) {
    const uint2 w = *(const uint2*)(record + word_at(4, lane, 0, 0, Steps));
    a[0][0] = w.x & kLow, a[0][1] = w.y & kLow, a[0][2] = w.x >> 4 & kLow, a[0][3] = w.y >> 4 & kLow;
  } else {
    FT_UNROLL for (int j = 0; j < Steps; j++) {
      if constexpr (Bits == 4) {
        if (j % 2 == 0) split_halves(*(const uint4*)(record + word_at(4, lane, j, 0, Steps)), a[j], a[j + 1]);
        continue;
      }
      const uint4 w = *(const uint4*)(record + word_at(8, lane, j, 0, Steps));
      a[j][0] = w.x, a[j][1] = w.y, a[j][2] = w.z, a[j][3] = w.w;
    }
  }
}

/// acc += one group of a tile: acc[0], acc[1] output quad of rows 2t, 2t + 1; acc[2], acc[3] output quad + 8.
/// `x`: scale and sum of row 2t, of row 2t + 1.
FT_DEVICE void add_group(float (&acc)[4], const int (&dot)[4], const float (&scale)[2],
                         const float (&bias)[2], float4 x) {
  acc[0] = fma_(bias[0], x.y, fma_((float)dot[0], scale[0] * x.x, acc[0]));
  acc[1] = fma_(bias[0], x.w, fma_((float)dot[1], scale[0] * x.z, acc[1]));
  acc[2] = fma_(bias[1], x.y, fma_((float)dot[2], scale[1] * x.x, acc[2]));
  acc[3] = fma_(bias[1], x.w, fma_((float)dot[3], scale[1] * x.z, acc[3]));
}

/// Eight weights of bfloat16.
FT_DEVICE void plain_weights(uint4 v, float (&w)[8]) {
  w[0] = bf16_low(v.x), w[1] = bf16_high(v.x), w[2] = bf16_low(v.y), w[3] = bf16_high(v.y);
  w[4] = bf16_low(v.z), w[5] = bf16_high(v.z), w[6] = bf16_low(v.w), w[7] = bf16_high(v.w);
}

/// Eight plain weights.
FT_DEVICE void load_weights(const void* weights, int wide, long long at, float (&w)[8]) {
  if (wide) {
    const float4 a = *(const float4*)((const float*)weights + at),
                 b = *(const float4*)((const float*)weights + at + 4);
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w, w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
  } else {
    plain_weights(*(const uint4*)((const u16*)weights + at), w);
  }
}

}  // namespace ft::cuda
