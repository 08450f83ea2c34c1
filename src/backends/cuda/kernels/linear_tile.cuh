// A linear of packed weights that fits any shape: a block has one tile of 16 outputs and 8 * Columns rows, a
// warp one slice of K. The order of additions is one for each K.
#pragma once

#include "backends/cuda/kernels/product.cuh"

namespace ft::cuda {

/// Codes or halves: Record::kInputBytes.
template <class Record, int Columns>
FT_DEVICE void linear_codes(const LinearArgs& p, float (*sums)[Columns][32][4]) {
  constexpr int kGroup = Record::kGroup, kAhead = Record::kAhead, kBytes = kGroup * Record::kInputBytes;
  const int lane = lane_of(), slice = warp_of(), quad = lane >> 2, t = lane & 3;
  const int tile = (int)blockIdx.x, row0 = (int)blockIdx.y * 8 * Columns;
  const i8* x[Columns];
  const float* xs[Columns];
  FT_UNROLL for (int n = 0; n < Columns; n++) {  // rows beyond the last read others: columns are independent
    const int first = min_(row0 + 8 * n, (p.rows - 1) / 8 * 8);
    x[n] = p.codes + (long long)min_(first + quad, p.rows - 1) * p.groups * kBytes + t * (kBytes / 4);
    xs[n] = p.scales + (long long)(first / 8) * p.groups * kScaleFloats + t * 4;
  }
  float acc[Columns][4];
  FT_UNROLL for (int n = 0; n < Columns; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
  const int begin = p.groups * slice / kSplitK, end = p.groups * (slice + 1) / kSplitK;
  for (int first = begin; first < end; first += kAhead) {
    Record records[kAhead];
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      if (first + i < end) records[i].load(p.records, tile, first + i, p.groups);
    }
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      const long long g = first + i;
      if (g >= end) continue;
      FT_UNROLL for (int n = 0; n < Columns; n++) records[i].multiply(
          x[n] + g * kBytes, *(const float4*)(xs[n] + g * kScaleFloats), acc[n]);
    }
  }
  FT_UNROLL for (int n = 0; n < Columns; n++) {
    *(float4*)sums[slice][n][lane] = make_float4(acc[n][0], acc[n][1], acc[n][2], acc[n][3]);
  }
  sync_block();
}

/// Adds the slices in order and stores: warp n has the rows [8 n, 8 n + 8).
template <class Record, int Columns>
FT_DEVICE void store_sums(const LinearArgs& p, float (*sums)[Columns][32][4]) {
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3, n = warp_of();
  if (n >= Columns) return;
  const float* flat = &sums[0][0][0][0];
  FT_UNROLL for (int i = 0; i < 4; i++) {
    float total = flat[((0 * Columns + n) * 32 + lane) * 4 + i];
    FT_UNROLL for (int slice = 1; slice < kSplitK; slice++) total =
        total + flat[((slice * Columns + n) * 32 + lane) * 4 + i];
    total = Record::whole(total);
    const int row = ((int)blockIdx.y * Columns + n) * 8 + 2 * t + i % 2;
    const int output = (int)blockIdx.x * kTileOutputs + quad + i / 2 * 8;
    if (row >= p.rows || output >= p.outputs) continue;
    if (p.residual.data != nullptr)
      total = p.residual.data[(long long)row * p.residual.stride + output] + total;
    p.out.data[(long long)row * p.out.stride + output] = total;
  }
}

}  // namespace ft::cuda

#define FT_LINEAR_OF(name, Columns, ...)                                           \
  FT_KERNEL(name, LinearArgs, 256) {                                               \
    using Record = __VA_ARGS__;                                                    \
    FT_SHARED __attribute__((aligned(16))) float sums[kSplitK * Columns * 32 * 4]; \
    begin_kernel();                                                                \
    linear_codes<Record, Columns>(p, (float(*)[Columns][32][4])sums);              \
    store_sums<Record, Columns>(p, (float(*)[Columns][32][4])sums);                \
  }
