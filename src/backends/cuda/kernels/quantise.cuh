// Rows as a product of packed weights reads them. A thread has 4 or 16 neighbours, group / 4 or group / 16
// neighbouring threads a group. Every thread of the warp must call it; `live` says whether the values count.
//
// 8-bit codes: a group's scale is max / 127, a code the nearest integer (ties to even) of x * (127 / max),
// the sum scale * sum of codes.
//
// Halves: x / 4 rounded to float16, x / 64 where the record of the weights has the code in the high four bits
// of a byte (the operand made of those bits is 16 times too large); beyond +-65,504 the largest half. The sum
// is that of the rounded numbers, times 2^-26, added as a binary tree. So a product with weights as subnormal
// halves (kernels/half.cuh) is 2^-26 of the whole. Four inputs lie in the order 0, 2, 1, 3; in groups of 64
// and 128 each sixteen inputs are four such quads in the order 0, 2, 1, 3.
#pragma once

#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

/// The codes of N neighbouring values, the scale of their group and its sum of codes.
template <int N>
struct Codes {
  u32 words[N / 4];
  float scale;
  int total;
};

template <int N>
FT_DEVICE Codes<N> make_codes(int group, const float (&v)[N]) {
  float top = 0;
  FT_UNROLL for (int j = 0; j < N; j++) top = max_(top, magnitude(v[j]));
  FT_LOOP for (int distance = 1; distance < group / N; distance *= 2) top =
      max_(top, shuffle_xor(top, distance));
  Codes<N> codes;
  codes.scale = top / 127.0f, codes.total = 0;
  const float inverse = top > 0 ? 127.0f / top : 0.0f;
  FT_UNROLL for (int j = 0; j < N; j++) {
    const int code = max_(-127, min_(127, round_(v[j] * inverse)));
    codes.total += code;
    codes.words[j / 4] = (j % 4 == 0 ? 0 : codes.words[j / 4]) | (u32)(code & 255) << (8 * (j % 4));
  }
  FT_LOOP for (int distance = 1; distance < group / N; distance *= 2) codes.total +=
      shuffle_xor(codes.total, distance);
  return codes;
}

/// Where quad `quad` of sixteen inputs lies; whether its codes are high four bits, in rows that say so.
FT_DEVICE int half_place(int group, int quad) { return group < 64 || quad % 3 == 0 ? quad : 3 - quad; }
FT_DEVICE bool is_high(int group, int quad) { return group < 64 ? quad % 2 == 1 : quad >= 2; }

/// Four neighbours as halves, in their order; returns their sum.
FT_DEVICE float make_half_quad(const float* v, bool high, u32 (&words)[2]) {
  constexpr float kMost = 65504.0f;
  const float factor = high ? 0.015625f : 0.25f, back = high ? 0x1p-20f : 0x1p-24f;
  u16 half[4];
  float rounded[4];
  FT_UNROLL for (int j = 0; j < 4; j++) {
    const float scaled = v[j] * factor;
    half[j] = float_to_half(scaled > kMost ? kMost : scaled < -kMost ? -kMost : scaled);
    rounded[j] = half_to_float(half[j]) * back;
  }
  words[0] = (u32)half[0] | (u32)half[2] << 16, words[1] = (u32)half[1] | (u32)half[3] << 16;
  return (rounded[0] + rounded[1]) + (rounded[2] + rounded[3]);
}

/// Halves of N neighbours from `at` on; `codes`, `scales`: of the row's first number, its first group.
template <int N>
FT_DEVICE void store_halves(bool split, int group, int at, const float (&v)[N], bool live, u32* codes,
                            float* scales) {
  const int first = at % 16 / 4;
  float sums[N / 4];
  u32 words[N / 4][2];
  FT_UNROLL for (int i = 0; i < N / 4; i++) {
    const bool high = split && is_high(group, first + i);
    sums[i] = make_half_quad(v + 4 * i, high, words[i]);
  }
  float sum = sums[0];
  if constexpr (N == 16) sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  FT_LOOP for (int distance = 1; distance < group / N; distance *= 2) sum = sum + shuffle_xor(sum, distance);
  if (!live) return;
  u32* const to = codes + at / 16 * 8;
  FT_UNROLL for (int i = 0; i < N / 4; i++) {
    const int place = half_place(group, first + i);
    to[2 * place] = words[i][0], to[2 * place + 1] = words[i][1];
  }
  if (at % group == 0) scales[at / group * kScaleFloats] = 0, scales[at / group * kScaleFloats + 1] = sum;
}

template <int N>
FT_DEVICE void store_codes(const QuantisedRowsOut& out, int row, int at, const float (&v)[N], bool live) {
  const Codes<N> codes = make_codes<N>(out.group, v);
  if (!live) return;
  u32* to_codes = (u32*)(out.codes + (long long)row * out.k + at);
  FT_UNROLL for (int j = 0; j < N / 4; j++) to_codes[j] = codes.words[j];
  if (at % out.group != 0) return;
  const int groups = out.k / out.group;
  float* to = out.scales + ((long long)(row / 8) * groups + at / out.group) * kScaleFloats + row % 8 * 2;
  to[0] = codes.scale;
  to[1] = codes.scale * (float)codes.total;
}

/// Codes or halves.
template <bool Halves, int N>
FT_DEVICE void store_rows(const QuantisedRowsOut& out, int row, int at, const float (&v)[N], bool live) {
  if constexpr (Halves) {
    const int group = out.group < 0 ? -out.group : out.group;
    store_halves<N>(out.group < 0, group, at, v, live, (u32*)out.codes + (long long)row * out.k / 2,
                    out.scales + (long long)(row / 8) * (out.k / group) * kScaleFloats + row % 8 * 2);
  } else {
    store_codes<N>(out, row, at, v, live);
  }
}

/// Sixteen neighbours of a row; those from `count` on are zero.
FT_DEVICE void load16(const float* from, int count, float (&v)[16]) {
  if (count >= 16) {
    FT_UNROLL for (int j = 0; j < 16; j += 4) {
      const float4 four = *(const float4*)(from + j);
      v[j] = four.x, v[j + 1] = four.y, v[j + 2] = four.z, v[j + 3] = four.w;
    }
    return;
  }
  FT_UNROLL for (int j = 0; j < 16; j++) v[j] = j < count ? from[j] : 0.0f;
}

}  // namespace ft::cuda
