// Queries, keys and values of a step: normalised, rotated, the keys and values into the cache (attend.cu).
#include "backends/cuda/kernels/attend.cuh"

namespace ft::cuda {

/// A head of a row in a warp: element i is value i / 32 of lane i % 32. All loads are issued together.
template <int Each>
struct PreparedHead {
  float v[Each];

  FT_DEVICE_MEMBER void load(const float* in, int size) {
    FT_UNROLL for (int j = 0; j < Each; j++) {
      const int i = lane_of() + 32 * j;
      v[j] = in != nullptr && i < size ? in[i] : 0.0f;
    }
  }
  FT_DEVICE_MEMBER float norm_factor(const AttendArgs& p) const {
    float sum = 0;
    FT_UNROLL for (int j = 0; j < Each; j++) if (lane_of() + 32 * j < p.head_dim) sum = fma_(v[j], v[j], sum);
    return 1.0f / sqrt_(warp_sum(sum) / (float)p.head_dim + p.eps);
  }
  /// Elements j and j + half, by the angles of this lane; through `scratch` [head_dim].
  FT_DEVICE_MEMBER void rotate(const AttendArgs& p, const PreparedHead& cosines, const PreparedHead& sines,
                               float* scratch) {
    FT_UNROLL for (int j = 0; j < Each; j++) {
      if (lane_of() + 32 * j < p.head_dim) scratch[lane_of() + 32 * j] = v[j];
    }
    sync_warp();
    FT_UNROLL for (int m = 0; m < Each / 2; m++) {
      const int j = lane_of() + 32 * m;
      if (j >= p.half) continue;
      const float c = cosines.v[m], s = sines.v[m], a = scratch[j], b = scratch[j + p.half];
      scratch[j] = a * c - b * s;
      scratch[j + p.half] = b * c + a * s;
    }
    sync_warp();
    load(scratch, p.head_dim);
  }
  /// One position's key or value, times `factor`, into the cache; `place` in its block.
  FT_DEVICE_MEMBER void store(const AttendArgs& p, float factor, u8* elements, float* scale,
                              int place) const {
    float top = 0, inverse = 0;
    if (p.kv_bits == 8) {
      FT_UNROLL for (int j = 0; j < Each; j++) top = max_(top, magnitude(v[j] * factor));
      top = warp_max(top);
      inverse = top > 0 ? 127.0f / top : 0.0f;
      if (lane_of() == 0) scale[place] = top / 127.0f;
    }
    FT_UNROLL for (int j = 0; j < Each; j++) {
      const float value = v[j] * factor;
      const int i = lane_of() + 32 * j, at = place * p.head_dim + i;
      if (i >= p.head_dim) continue;
      if (p.kv_bits == 16)
        ((u16*)elements)[at] = float_to_half(value > 65504.0f    ? 65504.0f
                                             : value < -65504.0f ? -65504.0f
                                                                 : value);
      else
        ((i8*)elements)[at] = (i8)max_(-127, min_(127, round_(value * inverse)));
    }
  }
};

// x: items of a row, four a block; y: row; z: segment (rows of others return).
template <int Each>
FT_DEVICE void attend_prepare(const AttendArgs& p, float* scratch) {
  release_next();
  const int item = (int)blockIdx.x * 4 + warp_of(), row = (int)blockIdx.y;
  if (item >= p.heads + (p.shared ? 0 : p.kv_heads)) return;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  if (row < s.first_row || row >= s.first_row + s.rows) return;
  const bool query = item < p.heads;
  const int head = query ? item : item - p.heads;
  const View& in = query ? p.q : p.k;
  const int stride = query && p.gated ? 2 * p.head_dim : p.head_dim;
  const int position = s.position + row - s.first_row;
  u8* keys = query ? nullptr : head_of(p, p.step.blocks[s.first_block + position / kCacheRows], head);
  const float* norm = query ? p.q_norm : p.k_norm;
  PreparedHead<Each> own, value, weight, cosines, sines;
  weight.load(norm, p.head_dim);
  wait_for_rows();
  own.load(in.data + (long long)row * in.stride + head * stride, p.head_dim);
  cosines.load(p.cosines + (long long)row * p.half, p.half);
  sines.load(p.sines + (long long)row * p.half, p.half);
  if (!query) value.load(p.v.data + (long long)row * p.v.stride + head * p.head_dim, p.head_dim);
  if (norm != nullptr) {
    const float factor = own.norm_factor(p);
    FT_UNROLL for (int j = 0; j < Each; j++) own.v[j] = own.v[j] * factor * weight.v[j];
  }
  own.rotate(p, cosines, sines, scratch);
  if (query) {
    float* to = p.queries + ((long long)row * p.heads + head) * p.head_dim;
    float factor = p.scale;
    if (p.gains != nullptr) factor *= p.gains[min_(position / p.gain_span, p.gain_count - 1)];
    FT_UNROLL for (int j = 0; j < Each; j++) {
      if (lane_of() + 32 * j < p.head_dim) to[lane_of() + 32 * j] = own.v[j] * factor;
    }
    return;
  }
  u8* values = keys + kCacheRows * p.head_dim * (p.kv_bits / 8);
  float* scales = (float*)(values + kCacheRows * p.head_dim * (p.kv_bits / 8));
  own.store(p, 1.0f, keys, scales, position % kCacheRows);
  value.store(p, p.v_norm ? value.norm_factor(p) : 1.0f, values, scales + kCacheRows, position % kCacheRows);
}

FT_KERNEL(attend_prepare_8, AttendArgs, 128) {
  FT_SHARED float scratch[4][kMaxHeadDim];
  attend_prepare<8>(p, scratch[warp_of()]);
}
FT_KERNEL(attend_prepare_16, AttendArgs, 128) {
  FT_SHARED float scratch[4][kMaxHeadDim];
  attend_prepare<16>(p, scratch[warp_of()]);
}

}  // namespace ft::cuda
