// Products of packed weights with rows of halves (quantise.cuh) by the matrix instruction m16n8k16. A code is
// the low bits of a half, so the operand is the code times 2^-24, a subnormal half, and nothing is left to
// correct; a code that stays in the high four bits of a byte is 16 times that, and its input is 16 times
// smaller. Of a group: its steps of sixteen inputs from zero; acc = fma(sum, scale, acc); then fma(bias, sum
// of inputs, acc). The rest is as with codes of rows: eight slices of K, added in order, and the whole times
// 2^26. Step s has the four inputs of place s of every lane (quantise.cuh), for all kernels.
#pragma once

#include "backends/cuda/kernels/product.cuh"
#include "backends/cuda/kernels/quantise.cuh"

namespace ft::cuda {

constexpr u32 kLowCodes = 0x000f000fu, kHighCodes = 0x00f000f0u, kByteCodes = 0x00ff00ffu;

/// The left operand of four inputs: words of output quad and of output quad + 8.
FT_DEVICE void half_operand(u32 quad, u32 other, u32 mask, u32 (&a)[4]) {
  a[0] = quad & mask, a[1] = other & mask, a[2] = quad >> 8 & mask, a[3] = other >> 8 & mask;
}
/// Four steps of 4-bit codes, in the order of places.
FT_DEVICE void half_operands(uint4 w, u32 (*a)[4]) {
  half_operand(w.x, w.y, kLowCodes, a[0]), half_operand(w.x, w.y, kHighCodes, a[1]);
  half_operand(w.z, w.w, kLowCodes, a[2]), half_operand(w.z, w.w, kHighCodes, a[3]);
}

/// A lane's codes of a record as they are packed.
template <int Bits, int Group>
struct HalfWords {
  static constexpr int kBytes = record_codes(Bits, Group) / 32;  // of a lane
  static constexpr int kParts = kBytes > 16 ? kBytes / 16 : 1;
  uint4 of[kParts];

  FT_DEVICE_MEMBER void load(const u8* record, int lane) {
    if constexpr (kBytes == 4) {
      of[0].x = ((const u32*)record)[lane];
    } else if constexpr (kBytes == 8) {
      const uint2 w = ((const uint2*)record)[lane];
      of[0].x = w.x, of[0].y = w.y;
    } else {
      FT_UNROLL for (int i = 0; i < kParts; i++) of[i] = *(const uint4*)(record + i * 512 + lane * 16);
    }
  }
  /// Left operands, a step each, in the order of places.
  FT_DEVICE_MEMBER void unpack(u32 (&a)[Group / 16][4]) const {
    if constexpr (Bits == 4 && Group == kShortestGroup) {
      half_operand(of[0].x, of[0].x >> 4, kLowCodes, a[0]);
    } else if constexpr (Bits == 4 && Group == kShortGroup) {
      half_operand(of[0].x, of[0].y, kLowCodes, a[0]), half_operand(of[0].x, of[0].y, kHighCodes, a[1]);
    } else if constexpr (Bits == 4) {
      FT_UNROLL for (int i = 0; i < kParts; i++) half_operands(of[i], a + 4 * i);
    } else if constexpr (Group == kShortestGroup) {
      half_operand(of[0].x, of[0].y, kByteCodes, a[0]);
    } else {
      FT_UNROLL for (int i = 0; i < kParts; i++) {
        const int block = i / 2 * 4, quad = i % 2 * 2;
        half_operand(of[i].x, of[i].y, kByteCodes, a[block + half_place(Group, quad)]);
        half_operand(of[i].z, of[i].w, kByteCodes, a[block + half_place(Group, quad + 1)]);
      }
    }
  }
};

/// A lane's left operands of a record, a step each.
template <int Bits, int Group>
FT_DEVICE void load_half_operands(const u8* record, int lane, u32 (&a)[Group / 16][4]) {
  HalfWords<Bits, Group> words;
  words.load(record, lane);
  words.unpack(a);
}

/// The steps of a group: `x`, the lane's halves of its row.
template <int Steps>
FT_DEVICE void multiply_steps(const u32 (&a)[Steps][4], const void* x, float (&dot)[4]) {
  dot[0] = dot[1] = dot[2] = dot[3] = 0;
  FT_UNROLL for (int s = 0; s < Steps; s++) {
    const uint2 b = ((const uint2*)x)[s];
    mma_halves(dot, a[s], b.x, b.y);
  }
}

/// A record of affine codes in a lane, and its product with a group of rows: AffineRecord (product.cuh) for
/// halves.
template <int Bits, int Group, int Scales>
struct HalfRecord {
  static constexpr int kGroup = Group, kAhead = 1, kInputBytes = 2;
  static constexpr int kCodes = record_codes(Bits, Group), kBytes = record_bytes(Bits, Group, Scales);
  u32 a[Group / 16][4];
  float scale[2], bias[2];

  FT_DEVICE_MEMBER void load(const u8* records, int tile, int group, int groups) {
    const u8* const record = records + record_at(tile, group, groups) * kBytes;
    load_half_operands<Bits, Group>(record, lane_of(), a);
    scale_of(record, kCodes, Scales, lane_of() >> 2, scale[0], bias[0]);
    scale_of(record, kCodes, Scales, (lane_of() >> 2) + 8, scale[1], bias[1]);
  }
  FT_DEVICE_MEMBER void multiply(const i8* x, float4 of_rows, float (&acc)[4]) const {
    float dot[4];
    multiply_steps(a, x, dot);
    FT_UNROLL for (int i = 0; i < 4; i++) acc[i] =
        fma_(bias[i / 2], i % 2 == 0 ? of_rows.y : of_rows.w, fma_(dot[i], scale[i / 2], acc[i]));
  }
  FT_DEVICE_MEMBER static float whole(float total) { return total * kWholeHalfSum; }
};

/// The same of e2m1 codes, doubled magnitudes with their signs.
struct SmallFloatHalfRecord {
  static constexpr int kGroup = kSmallFloatGroup, kAhead = 2, kInputBytes = 2;
  u32 a[2][4];
  float scale[2];

  FT_DEVICE_MEMBER void load(const u8* records, int tile, int group, int groups) {
    const u8* const record = small_float_record(records, tile, group, groups);
    const uint2 words = *(const uint2*)(record + lane_of() * 8);
    FT_UNROLL for (int s = 0; s < 2; s++) {
      take_four(words.x >> (16 * s), a[s][0], a[s][2]);
      take_four(words.y >> (16 * s), a[s][1], a[s][3]);
    }
    const u32 scales = *(const u16*)(record + kSmallFloatCodes + (lane_of() >> 2) * 2);
    scale[0] = power_of(scales & 255u), scale[1] = power_of(scales >> 8);
  }
  FT_DEVICE_MEMBER void multiply(const i8* x, float4 /*of_rows*/, float (&acc)[4]) const {
    float dot[4];
    multiply_steps(a, x, dot);
    FT_UNROLL for (int i = 0; i < 4; i++) acc[i] = fma_(dot[i], scale[i / 2], acc[i]);
  }
  FT_DEVICE_MEMBER static float whole(float total) { return 0.5f * kWholeHalfSum * total; }

 private:
  /// Inputs 0 and 2, 1 and 3 of four codes: magnitudes by bytes, signs from each code's highest bit.
  FT_DEVICE_MEMBER static void take_four(u32 codes, u32& even, u32& odd) {
    const u32 bytes = permute_bytes(kLowMagnitudes, kHighMagnitudes, codes & 0x7777u);
    even = (bytes & kByteCodes) | (codes << 12 & 0x8000u) | (codes << 20 & 0x80000000u);
    odd = (bytes >> 8 & kByteCodes) | (codes << 8 & 0x8000u) | (codes << 16 & 0x80000000u);
  }
};

}  // namespace ft::cuda
