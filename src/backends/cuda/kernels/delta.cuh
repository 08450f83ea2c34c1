// Shared by the delta rule of prompts (delta.cu) and of steps of few rows (delta_step.cu): gates, norms, the
// columns of a state.
#pragma once

#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

FT_DEVICE float quarter_sum(float value) {
  value = value + shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

FT_DEVICE float softplus(float x) {
  const double rest = log_of_positive(1.0 + exp_of_negative(-(double)magnitude(x)));
  return (x > 0 ? x : 0.0f) + (float)rest;
}

/// l2-normalised query or key of a row, times 1 / sqrt(key_dim) the query.
FT_DEVICE void normalise(const float* in, int size, float scale, float* out) {
  float sum = 0;
  FT_UNROLL_4 for (int i = lane_of(); i < size; i += 32) sum = fma_(in[i], in[i], sum);
  const float factor = scale / sqrt_(warp_sum(sum) + 1e-6f);
  FT_UNROLL_4 for (int i = lane_of(); i < size; i += 32) out[i] = in[i] * factor;
}

/// Two columns of a state in registers: lane l of a column's four has the keys 16 j + 4 l ... + 3. `Keys` a
/// lane; those beyond key_dim are zero. A key that is read from shared memory serves both columns.
template <int Keys>
struct DeltaColumns {
  float v[2][Keys];

  /// From memory; `fresh`: zeros, so that an earlier timeline's state in the slot does not leak.
  FT_DEVICE_MEMBER void load(int c, const float* state, bool fresh) {
    FT_UNROLL for (int i = 0; i < Keys; i += 4) {
      const float4 four = fresh ? make_float4(0, 0, 0, 0) : *(const float4*)(state + i * 4);
      v[c][i] = four.x, v[c][i + 1] = four.y, v[c][i + 2] = four.z, v[c][i + 3] = four.w;
    }
  }
  FT_DEVICE_MEMBER void store(int c, float* state) const {
    FT_UNROLL for (int i = 0; i < Keys; i += 4) * (float4*)(state + i * 4) =
        make_float4(v[c][i], v[c][i + 1], v[c][i + 2], v[c][i + 3]);
  }
  /// An entry of the tape again; `key` from the lane's first one on, of them `keys` are there. Whole: all
  /// are, at places for 16 bytes.
  template <bool Whole>
  FT_DEVICE_MEMBER void replay(const float* key, int keys, float g, const float (&change)[2]) {
    FT_UNROLL for (int j = 0; j < Keys; j += 4) {
      float k[4];
      FT_UNROLL for (int i = 0; i < 4; i++) k[i] = !Whole && j * 4 + i < keys ? key[j * 4 + i] : 0.0f;
      if (Whole) {
        const float4 four = *(const float4*)(key + j * 4);
        k[0] = four.x, k[1] = four.y, k[2] = four.z, k[3] = four.w;
      }
      FT_UNROLL for (int c = 0; c < 2; c++) FT_UNROLL for (int i = 0; i < 4; i++) v[c][j + i] =
          fma_(k[i], change[c], g * v[c][j + i]);
    }
  }
  /// One row: moves the value stored under its key towards `value` by `rate`, then reads `out`.
  FT_DEVICE_MEMBER void add_row(const float* key, const float* query, float g, float rate,
                                const float (&value)[2], float (&change)[2], float (&out)[2]) {
    float k[Keys], seen[2] = {0, 0};
    FT_UNROLL for (int j = 0; j < Keys; j += 4) {
      const float4 four = *(const float4*)(key + j * 4);
      k[j] = four.x, k[j + 1] = four.y, k[j + 2] = four.z, k[j + 3] = four.w;
      FT_UNROLL for (int c = 0; c < 2; c++) FT_UNROLL for (int i = j; i < j + 4; i++) {
        v[c][i] = g * v[c][i];
        seen[c] = fma_(v[c][i], k[i], seen[c]);
      }
    }
    FT_UNROLL for (int c = 0; c < 2; c++) {
      change[c] = rate * (value[c] - quarter_sum(seen[c]));
      out[c] = 0;
    }
    FT_UNROLL for (int j = 0; j < Keys; j += 4) {
      const float4 four = *(const float4*)(query + j * 4);
      const float q[4] = {four.x, four.y, four.z, four.w};
      FT_UNROLL for (int c = 0; c < 2; c++) FT_UNROLL for (int i = j; i < j + 4; i++) {
        v[c][i] = fma_(k[i], change[c], v[c][i]);
        out[c] = fma_(v[c][i], q[i - j], out[c]);
      }
    }
    FT_UNROLL for (int c = 0; c < 2; c++) out[c] = quarter_sum(out[c]);
  }
};

}  // namespace ft::cuda
