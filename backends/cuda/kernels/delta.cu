// The convolution and the gated delta rule, each token by token: a segment's rows in one thread or block.
#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

// One thread a channel; y: segment. The rows before the segment are read before any of the ring is written.
FT_KERNEL(conv, ConvArgs, 128) {
  release_next();
  const int c = (int)blockIdx.x * 128 + (int)threadIdx.x;
  if (c >= p.in.width) return;
  const SegmentPlace s = p.step.segments[blockIdx.y];
  float* ring = (float*)(p.slots + s.slot * p.slot_bytes + p.offset);
  float past[kMaxTaps], kernel[kMaxTaps];  // past[i]: the input i + 1 rows ago
  FT_UNROLL for (int i = 0; i < kMaxTaps; i++) {
    const int source = s.position - 1 - i;
    past[i] = i < p.kernel_width - 1 && source >= 0 ? ring[(source % kRingRows) * p.in.width + c] : 0.0f;
    kernel[i] = i < p.kernel_width ? p.kernel[c * p.kernel_width + p.kernel_width - 1 - i] : 0.0f;
  }
  wait_for_rows();
  for (int r = 0; r < s.rows; r++) {
    const float x = p.in.data[(long long)(s.first_row + r) * p.in.stride + c];
    float sum = 0;
    FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--)
      if (i < p.kernel_width) sum = fma_(kernel[i], past[i - 1], sum);
    sum = fma_(kernel[0], x, sum);
    p.out.data[(long long)(s.first_row + r) * p.out.stride + c] = silu(sum);
    if (s.rows - r <= kRingRows) ring[((s.position + r) % kRingRows) * p.in.width + c] = x;
    FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) past[i] = past[i - 1];
    past[0] = x;
  }
}

FT_DEVICE float quarter_sum(float value) {
  value = value + shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

FT_DEVICE float softplus(float x) {
  const double rest = log_of_positive(1.0 + exp_of_negative(-(double)magnitude(x)));
  return (x > 0 ? x : 0.0f) + (float)rest;
}

/// l2-normalised query and key of a row, times 1 / sqrt(key_dim) the query: warps 0 and 1.
FT_DEVICE void normalise(const float* in, int size, float scale, float* out) {
  float sum = 0;
  for (int i = lane_of(); i < size; i += 32) sum = fma_(in[i], in[i], sum);
  const float factor = scale / sqrt_(warp_sum(sum) + 1e-6f);
  for (int i = lane_of(); i < size; i += 32) out[i] = in[i] * factor;
}

// Block: (32 columns of a value head, value head, segment); four lanes a column, lane l of them the keys
// 16 j + 4 l ... + 3. A column's state: [4 * Keys] floats, those beyond key_dim zero.
template <int Keys>
FT_DEVICE void delta_rule(const DeltaArgs& p, float (*vectors)[4 * Keys], float* gates) {
  const int column = (int)blockIdx.x * 32 + (int)threadIdx.x / 4, l = (int)threadIdx.x & 3;
  const int head = (int)blockIdx.y, key_head = head / (p.value_heads / p.key_heads);
  const bool live = column < p.value_dim;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  u8* slot = p.slots + s.slot * p.slot_bytes;
  float* state = (float*)(slot + p.state_offset) +
                 ((long long)head * p.value_dim + (live ? column : 0)) * (4 * Keys) + l * 4;
  float* tape = (float*)(slot + p.tape_offset);
  float* query = vectors[0];
  float* key = vectors[1];
  const float decay = p.decay[head], dt_bias = p.dt_bias[head];
  float v[Keys];
  const bool fresh = s.position == s.replay;  // never read what an earlier timeline left in the slot
  FT_UNROLL for (int i = 0; i < Keys; i += 4) {
    const float4 four = fresh ? make_float4(0, 0, 0, 0) : *(const float4*)(state + i * 4);
    v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
  }
  for (int i = (int)threadIdx.x; i < 4 * Keys; i += 128) query[i] = key[i] = 0;
  for (int r = 0; r < s.replay; r++) {
    const float* entry = tape + (long long)(s.tape * kTapeRows + r) * p.entry;
    const float* k = entry + key_head * p.key_dim;
    const float* d = entry + p.key_heads * p.key_dim + head * p.value_dim;
    const float g = entry[p.key_heads * p.key_dim + p.value_heads * p.value_dim + head];
    const float own = live ? d[column] : 0.0f;
    FT_UNROLL for (int i = 0; i < Keys; i++) {
      const int at = i / 4 * 16 + l * 4 + i % 4;
      v[i] = fma_(at < p.key_dim ? k[at] : 0.0f, own, g * v[i]);
    }
  }
  wait_for_rows();
  const auto keep = [&] {
    if (!live) return;
    FT_UNROLL for (int i = 0; i < Keys; i += 4) * (float4*)(state + i * 4) =
        make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
  };
  if (s.confirmed == 0) keep();
  const int keys = p.key_heads * p.key_dim;
  for (int r = 0; r < s.rows; r++) {
    const int row = s.first_row + r;
    const float* in = p.in.data + (long long)row * p.in.stride;
    sync_block();
    if (warp_of() == 0)
      normalise(in + key_head * p.key_dim, p.key_dim, 1.0f / sqrt_((float)p.key_dim), query);
    if (warp_of() == 1) normalise(in + keys + key_head * p.key_dim, p.key_dim, 1.0f, key);
    if (threadIdx.x == 64) {
      const float a = p.a.data[(long long)row * p.a.stride + head] + dt_bias;
      gates[0] = (float)exp_of_negative(-(double)(decay * softplus(a)));
    }
    if (threadIdx.x == 96) gates[1] = sigmoid(p.b.data[(long long)row * p.b.stride + head]);
    const float value = live ? in[2 * keys + head * p.value_dim + column] : 0.0f;
    sync_block();
    const float g = gates[0];
    float seen = 0;
    FT_UNROLL for (int i = 0; i < Keys; i++) {
      v[i] = g * v[i];
      seen = fma_(v[i], key[i / 4 * 16 + l * 4 + i % 4], seen);
    }
    seen = quarter_sum(seen);
    const float d = gates[1] * (value - seen);
    float out = 0;
    FT_UNROLL for (int i = 0; i < Keys; i++) {
      const int at = i / 4 * 16 + l * 4 + i % 4;
      v[i] = fma_(key[at], d, v[i]);
      out = fma_(v[i], query[at], out);
    }
    out = quarter_sum(out);
    if (live && l == 0) p.out.data[(long long)row * p.out.stride + head * p.value_dim + column] = out;
    if (r == s.confirmed - 1) keep();
    if (r < s.confirmed) continue;
    float* entry = tape + (long long)((1 - s.tape) * kTapeRows + r - s.confirmed) * p.entry;
    if (live && l == 0) entry[keys + head * p.value_dim + column] = d;
    if (blockIdx.x != 0) continue;
    if (threadIdx.x == 64) entry[keys + p.value_heads * p.value_dim + head] = g;
    if (head % (p.value_heads / p.key_heads) == 0) {
      for (int i = (int)threadIdx.x; i < p.key_dim; i += 128) entry[key_head * p.key_dim + i] = key[i];
    }
  }
}

}  // namespace ft::cuda

#define FT_DELTA(Keys)                                        \
  FT_KERNEL(delta_rule_##Keys, DeltaArgs, 128) {              \
    FT_SHARED float vectors[2 * 4 * Keys];                    \
    FT_SHARED float gates[2];                                 \
    release_next();                                           \
    delta_rule<Keys>(p, (float(*)[4 * Keys]) vectors, gates); \
  }

namespace ft::cuda {

FT_DELTA(8)
FT_DELTA(16)
FT_DELTA(32)
FT_DELTA(64)

}  // namespace ft::cuda
