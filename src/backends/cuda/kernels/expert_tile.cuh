// Products of rows with the experts that they go to, of packed weights: a block multiplies one tile of an
// expert's matrix with one tile of pairs (experts.cu).
#pragma once

#include "backends/cuda/kernels/product.cuh"

namespace ft::cuda {

/// The input row of a place of the expert tile; places without a pair repeat the first one's.
FT_DEVICE int row_of_place(const ExpertArgs& p, const int* pairs, int place) {
  const int pair = pairs[place];
  return (pair < 0 ? pairs[0] : pair) / p.pairs_a_row;
}

// x: tile of the expert's matrix; y: expert tile. Warp: slice of K.
template <class Record>
FT_DEVICE void expert_codes(const ExpertArgs& p, float (*sums)[32][4]) {
  constexpr int kGroup = Record::kGroup, kAhead = Record::kAhead, kBytes = kGroup * Record::kInputBytes;
  const int lane = lane_of(), slice = warp_of(), quad = lane >> 2, t = lane & 3;
  const int expert = p.expert_tiles.experts[blockIdx.y];
  if (expert < 0) return;
  const int* pairs = p.expert_tiles.pairs + (int)blockIdx.y * kExpertTileRows;
  const i8* x = p.codes + (long long)row_of_place(p, pairs, quad) * p.groups * kBytes + t * (kBytes / 4);
  const float* scales[2];
  FT_UNROLL for (int i = 0; i < 2; i++) {
    const int row = row_of_place(p, pairs, 2 * t + i);
    scales[i] = p.scales + (long long)(row / 8) * p.groups * kScaleFloats + row % 8 * 2;
  }
  const int tile = expert * p.tiles + (int)blockIdx.x;
  float acc[4] = {0, 0, 0, 0};
  const int begin = p.groups * slice / kSplitK, end = p.groups * (slice + 1) / kSplitK;
  for (int first = begin; first < end; first += kAhead) {
    Record records[kAhead];
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      if (first + i < end) records[i].load(p.records, tile, first + i, p.groups);
    }
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      const long long g = first + i;
      if (g >= end) continue;
      const float *s = scales[0] + g * kScaleFloats, *u = scales[1] + g * kScaleFloats;
      records[i].multiply(x + g * kBytes, make_float4(s[0], s[1], u[0], u[1]), acc);
    }
  }
  *(float4*)sums[slice][lane] = make_float4(acc[0], acc[1], acc[2], acc[3]);
  sync_block();
  if (slice != 0) return;
  FT_UNROLL for (int i = 0; i < 4; i++) {
    float total = sums[0][lane][i];
    FT_UNROLL for (int j = 1; j < kSplitK; j++) total = total + sums[j][lane][i];
    total = Record::whole(total);
    const int pair = pairs[2 * t + i % 2];
    if (pair >= 0)
      p.out.data[(long long)pair * p.out.stride + (int)blockIdx.x * kTileOutputs + quad + i / 2 * 8] = total;
  }
}

}  // namespace ft::cuda

#define FT_EXPERT_OF(name, ...)                                          \
  FT_KERNEL(name, ExpertArgs, 256) {                                     \
    FT_SHARED __attribute__((aligned(16))) float sums[kSplitK * 32 * 4]; \
    begin_kernel();                                                      \
    expert_codes<__VA_ARGS__>(p, (float(*)[32][4])sums);                 \
  }
