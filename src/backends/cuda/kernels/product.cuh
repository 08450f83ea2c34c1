// Parts of products that linear.cu and experts.cu share: packed words as operands of the matrix
// instruction, sums of a group, plain weights as floats.
#pragma once

#include "backends/cuda/kernels/layout.cuh"

namespace ft::cuda {

constexpr float kWholeHalfSum = 67108864.0f;  // 2^26: makes a product with rows of halves whole (half.cuh)

/// Weights of the linears that are made for Hopper.
template <int Bits, int Group, int Scales>
struct StreamedWeights {
  static constexpr int kBits = Bits, kGroup = Group, kScaleType = Scales, kSteps = Group / 32;
  static constexpr int kCodes = record_codes(Bits, Group), kRecord = record_bytes(Bits, Group, Scales);
  static constexpr int kPairBytes = scale_pair_bytes(Scales);
  static constexpr bool kIsStreamed = Bits == 4 && Group == kStreamedGroup && Scales == kBf16Scales;
  static constexpr int kScaleLines = kStreamedGroup / Group;  // times k: bytes of the scales of eight rows
  static constexpr int kInputBytes = 1;
};
/// The same with rows of halves (half.cuh).
template <int Bits, int Group, int Scales>
struct HalfWeights : StreamedWeights<Bits, Group, Scales> {
  static constexpr bool kIsStreamed = false;
  static constexpr int kInputBytes = 2;
  static constexpr bool kSplit = Bits == 4;  // codes in the high bits of bytes
};

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

/// A lane's codes of a group of 16: of outputs quad and quad + 8.
template <int Bits>
FT_DEVICE void load_shortest(const u8* record, int lane, u32 (&a)[2]) {
  constexpr u32 kLow = 0x0f0f0f0fu;
  if constexpr (Bits == 4) {
    const u32 w = ((const u32*)record)[lane];
    a[0] = w & kLow, a[1] = w >> 4 & kLow;
  } else {
    const uint2 w = ((const uint2*)record)[lane];
    a[0] = w.x, a[1] = w.y;
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

/// A record of affine codes in a lane, and its product with a group of rows.
template <int Bits, int Group, int Scales>
struct AffineRecord {
  static constexpr int kGroup = Group, kSteps = Group / 32, kAhead = 1, kInputBytes = 1;
  u32 a[kSteps][4];
  float scale[2], bias[2];

  FT_DEVICE_MEMBER void load(const u8* records, int tile, int group, int groups) {
    const u8* const record = records + record_at(tile, group, groups) * record_bytes(Bits, Group, Scales);
    load_words<Bits, kSteps>(record, lane_of(), a);
    scale_of(record, record_codes(Bits, Group), Scales, lane_of() >> 2, scale[0], bias[0]);
    scale_of(record, record_codes(Bits, Group), Scales, (lane_of() >> 2) + 8, scale[1], bias[1]);
  }
  /// `x`: the lane's codes of its quad's row; `of_rows` as in add_group.
  FT_DEVICE_MEMBER void multiply(const i8* x, float4 of_rows, float (&acc)[4]) const {
    int dot[4] = {0, 0, 0, 0};
    FT_UNROLL for (int j = 0; j < kSteps; j++) {
      const uint2 b = *(const uint2*)(x + 8 * j);
      mma_bytes(dot, a[j][0], a[j][1], a[j][2], a[j][3], b.x, b.y);
    }
    add_group(acc, dot, scale, bias, of_rows);
  }
  /// The sum of all slices.
  FT_DEVICE_MEMBER static float whole(float total) { return total; }
};

/// The same of groups of 16, which are half a step.
template <int Bits, int Scales>
struct AffineRecord<Bits, kShortestGroup, Scales> {
  static constexpr int kGroup = kShortestGroup, kAhead = 4, kInputBytes = 1;
  static constexpr int kCodes = record_codes(Bits, kGroup), kBytes = record_bytes(Bits, kGroup, Scales);
  u32 a[2];
  float scale[2], bias[2];

  FT_DEVICE_MEMBER void load(const u8* records, int tile, int group, int groups) {
    const u8* const record = records + record_at(tile, group, groups) * kBytes;
    load_shortest<Bits>(record, lane_of(), a);
    scale_of(record, kCodes, Scales, lane_of() >> 2, scale[0], bias[0]);
    scale_of(record, kCodes, Scales, (lane_of() >> 2) + 8, scale[1], bias[1]);
  }
  FT_DEVICE_MEMBER void multiply(const i8* x, float4 of_rows, float (&acc)[4]) const {
    int dot[4] = {0, 0, 0, 0};
    mma_bytes_16(dot, a[0], a[1], *(const u32*)x);
    add_group(acc, dot, scale, bias, of_rows);
  }
  FT_DEVICE_MEMBER static float whole(float total) { return total; }
};

/// The same of e2m1 codes: sums are doubled until they are whole. Positive and negative codes have separate
/// products; in each of them the other codes are 0.
struct SmallFloatRecord {
  static constexpr int kGroup = kSmallFloatGroup, kAhead = 4, kInputBytes = 1;
  uint2 words;
  u32 scales;

  FT_DEVICE_MEMBER void load(const u8* records, int tile, int group, int groups) {
    const u8* const record = small_float_record(records, tile, group, groups);
    words = *(const uint2*)(record + lane_of() * 8);
    scales = *(const u16*)(record + kSmallFloatCodes + (lane_of() >> 2) * 2);
  }
  FT_DEVICE_MEMBER void multiply(const i8* x, float4 of_rows, float (&acc)[4]) const {
    const uint2 b = *(const uint2*)x;
    int above[4] = {0, 0, 0, 0}, below[4] = {0, 0, 0, 0};
    add_positive(above, words.x, words.y, b);
    add_positive(below, words.x ^ 0x88888888u, words.y ^ 0x88888888u, b);
    const float low = power_of(scales & 255u), high = power_of(scales >> 8);
    acc[0] = fma_((float)(above[0] - below[0]), low * of_rows.x, acc[0]);
    acc[1] = fma_((float)(above[1] - below[1]), low * of_rows.z, acc[1]);
    acc[2] = fma_((float)(above[2] - below[2]), high * of_rows.x, acc[2]);
    acc[3] = fma_((float)(above[3] - below[3]), high * of_rows.z, acc[3]);
  }
  FT_DEVICE_MEMBER static float whole(float total) { return 0.5f * total; }

 private:
  /// The magnitudes of four positive codes, 0 for negative ones.
  FT_DEVICE_MEMBER static u32 positive(u32 codes) {
    return permute_bytes(kLowMagnitudes, kHighMagnitudes, codes);
  }
  FT_DEVICE_MEMBER static void add_positive(int (&dot)[4], u32 quad, u32 other, uint2 b) {
    mma_bytes(dot, positive(quad), positive(other), positive(quad >> 16), positive(other >> 16), b.x, b.y);
  }
};

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
