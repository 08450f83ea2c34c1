// 8-bit codes of activations: a group's scale is max / 127, a code the nearest integer (ties to even) of
// x * (127 / max), the sum scale * sum of codes. A thread has 16 consecutive values, group / 16 neighbouring
// threads a group. Every thread of the warp must call it; `live` says whether the values count.
#pragma once

#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

FT_DEVICE void store_codes(const CodesOut& out, int row, int at, const float (&v)[16], bool live) {
  float top = 0;
  FT_UNROLL for (int j = 0; j < 16; j++) top = max_(top, magnitude(v[j]));
  for (int distance = 1; distance < out.group / 16; distance *= 2)
    top = max_(top, shuffle_xor(top, distance));
  const float scale = top / 127.0f;
  const float inverse = top > 0 ? 127.0f / top : 0.0f;
  int total = 0;
  u32 words[4] = {0, 0, 0, 0};
  FT_UNROLL for (int j = 0; j < 16; j++) {
    const int code = max_(-127, min_(127, round_(v[j] * inverse)));
    total += code;
    words[j / 4] |= (u32)(code & 255) << (8 * (j % 4));
  }
  for (int distance = 1; distance < out.group / 16; distance *= 2) total += shuffle_xor(total, distance);
  if (!live) return;
  *(uint4*)(out.codes + (long long)row * out.k + at) = make_uint4(words[0], words[1], words[2], words[3]);
  if (at % out.group != 0) return;
  const int groups = out.k / out.group;
  float* to = out.scales + ((long long)(row / 8) * groups + at / out.group) * kScaleFloats + row % 8 / 2 * 4 +
              row % 2;
  to[0] = scale;
  to[2] = scale * (float)total;
}

}  // namespace ft::cuda
