// Queries, keys and values of a step: normalised, rotated, the keys and values into the cache (attend.cu).
#include "backends/cuda/kernels/attend.cuh"

namespace ft::cuda {

FT_DEVICE float norm_factor(const AttendArgs& p, const float* in) {
  float sum = 0;
  FT_FOURS for (int i = lane_of(); i < p.head_dim; i += 32) sum = fma_(in[i], in[i], sum);
  return 1.0f / sqrt_(warp_sum(sum) / (float)p.head_dim + p.eps);
}

/// Norm and rotation of one head by a warp: element i of lane i % 32; through `scratch` [head_dim].
FT_DEVICE void prepare_head(const AttendArgs& p, const float* in, const float* norm, int row,
                            float* scratch) {
  const float factor = norm == nullptr ? 1.0f : norm_factor(p, in);
  FT_FOURS for (int i = lane_of(); i < p.head_dim; i += 32)
    scratch[i] = norm == nullptr ? in[i] : in[i] * factor * norm[i];
  sync_warp();
  FT_LOOP for (int j = lane_of(); j < p.half; j += 32) {
    const float c = p.cosines[row * p.half + j], s = p.sines[row * p.half + j];
    const float a = scratch[j], b = scratch[j + p.half];
    scratch[j] = a * c - b * s;
    scratch[j + p.half] = b * c + a * s;
  }
  sync_warp();
}

/// One position's key or value, times `factor`, into the cache; `place` in its block.
FT_DEVICE void store_cached(const AttendArgs& p, const float* from, float factor, u8* elements, float* scale,
                            int place) {
  float top = 0, inverse = 0;
  if (p.kv_bits == 8) {
    FT_FOURS for (int i = lane_of(); i < p.head_dim; i += 32) top = max_(top, magnitude(from[i] * factor));
    top = warp_max(top);
    inverse = top > 0 ? 127.0f / top : 0.0f;
    if (lane_of() == 0) scale[place] = top / 127.0f;
  }
  FT_FOURS for (int i = lane_of(); i < p.head_dim; i += 32) {
    const float value = from[i] * factor;
    const int at = place * p.head_dim + i;
    if (p.kv_bits == 16)
      ((u16*)elements)[at] =
          float_to_half(value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value);
    else
      ((i8*)elements)[at] = (i8)max_(-127, min_(127, round_(value * inverse)));
  }
}

// x: items of a row, four a block; y: row; z: segment (rows of others return).
FT_KERNEL(attend_prepare, AttendArgs, 128) {
  FT_SHARED float scratch[4][kMaxHeadDim];
  begin_kernel();
  const int item = (int)blockIdx.x * 4 + warp_of(), row = (int)blockIdx.y;
  if (item >= p.heads + (p.shared ? 0 : p.kv_heads)) return;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  if (row < s.first_row || row >= s.first_row + s.rows) return;
  float* own = scratch[warp_of()];
  const bool query = item < p.heads;
  const int head = query ? item : item - p.heads;
  const View& in = query ? p.q : p.k;
  const int stride = query && p.gated ? 2 * p.head_dim : p.head_dim;
  const float* norm = query ? p.q_norm : p.k_norm;
  prepare_head(p, in.data + (long long)row * in.stride + head * stride, norm, row, own);
  if (query) {
    float* to = p.queries + ((long long)row * p.heads + head) * p.head_dim;
    FT_FOURS for (int i = lane_of(); i < p.head_dim; i += 32) to[i] = own[i] * p.scale;
    return;
  }
  const int position = s.position + row - s.first_row;
  u8* keys = head_of(p, p.step.blocks[s.first_block + position / kCacheRows], head);
  u8* values = keys + kCacheRows * p.head_dim * (p.kv_bits / 8);
  float* scales = (float*)(values + kCacheRows * p.head_dim * (p.kv_bits / 8));
  const float* v = p.v.data + (long long)row * p.v.stride + head * p.head_dim;
  FT_LOOP for (int n = 0; n < 2; n++) {
    const float factor = n == 1 && p.v_norm ? norm_factor(p, v) : 1.0f;
    store_cached(p, n == 0 ? own : v, factor, n == 0 ? keys : values, scales + n * kCacheRows,
                 position % kCacheRows);
  }
}

}  // namespace ft::cuda
