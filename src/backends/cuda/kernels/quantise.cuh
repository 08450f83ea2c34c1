// 8-bit codes of activations: a group's scale is max / 127, a code the nearest integer (ties to even) of
// x * (127 / max), the sum scale * sum of codes. A thread has 4 or 16 neighbours, group / 4 or group / 16
// neighbouring threads a group. Every thread of the warp must call it; `live` says whether the values count.
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
