// The convolution and the gated delta rule, each token by token: a segment's rows in one thread or block.
#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

constexpr int kConvAhead = 8;  // rows that a thread loads at once

// One thread a channel; y: segment; z: its rows [32 z, 32 z + 32). The first of them, which alone reads the
// ring, writes it, after that.
FT_KERNEL(conv, ConvArgs, 128) {
  release_next();
  const int c = (int)blockIdx.x * 128 + (int)threadIdx.x, first = (int)blockIdx.z * kRingRows;
  if (c >= p.in.width) return;
  const SegmentPlace s = p.step.segments[blockIdx.y];
  if (first >= s.rows) return;
  float* ring = (float*)(p.slots + s.slot * p.slot_bytes + p.offset);
  const float* in = p.in.data + (long long)s.first_row * p.in.stride + c;
  float past[kMaxTaps], kernel[kMaxTaps];  // past[i]: the input i + 1 rows ago
  FT_UNROLL for (int i = 0; i < kMaxTaps; i++) {
    const int source = s.position - 1 - i;
    past[i] = first == 0 && i < p.kernel_width - 1 && source >= 0
                  ? ring[(source % kRingRows) * p.in.width + c]
                  : 0.0f;
    kernel[i] = i < p.kernel_width ? p.kernel[c * p.kernel_width + p.kernel_width - 1 - i] : 0.0f;
  }
  wait_for_rows();
  if (first > 0) {
    FT_UNROLL for (int i = 0; i < kMaxTaps; i++) past[i] = in[(long long)(first - 1 - i) * p.in.stride];
  }
  const int end = min_(first + kRingRows, s.rows);
  for (int row = first; row < end; row += kConvAhead) {
    float x[kConvAhead];
    FT_UNROLL for (int r = 0; r < kConvAhead; r++) x[r] =
        row + r < end ? in[(long long)(row + r) * p.in.stride] : 0.0f;
    FT_UNROLL for (int r = 0; r < kConvAhead; r++) {
      float sum = 0;
      FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) if (i < p.kernel_width) sum =
          fma_(kernel[i], past[i - 1], sum);
      sum = fma_(kernel[0], x[r], sum);
      if (row + r < end) p.out.data[(long long)(s.first_row + row + r) * p.out.stride + c] = silu(sum);
      FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) past[i] = past[i - 1];
      past[0] = x[r];
    }
  }
  if (first > 0) return;
  for (int r = max_(0, s.rows - kRingRows); r < s.rows; r++)
    ring[((s.position + r) % kRingRows) * p.in.width + c] = in[(long long)r * p.in.stride];
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

constexpr int kDeltaRows = 16;  // that a block prepares together, before it goes token by token

template <int Keys>
struct DeltaRows {
  float queries[kDeltaRows][4 * Keys];
  float keys[kDeltaRows][4 * Keys];
  float values[kDeltaRows][32];
  float decays[kDeltaRows];
  float rates[kDeltaRows];
};

/// Rows [first, first + count) of the segment: queries and keys normalised, values, gates. Keys beyond
/// key_dim stay zero.
template <int Keys>
FT_DEVICE void prepare_rows(const DeltaArgs& p, const SegmentPlace& s, int first, int count,
                            DeltaRows<Keys>& rows) {
  const int head = (int)blockIdx.y, key_head = head / (p.value_heads / p.key_heads);
  const int keys = p.key_heads * p.key_dim, lane = lane_of();
  const long long row0 = s.first_row + first;
  if (warp_of() == 2 && lane < count) {
    const float a = p.a.data[(row0 + lane) * p.a.stride + head] + p.dt_bias[head];
    rows.decays[lane] = (float)exp_of_negative(-(double)(p.decay[head] * softplus(a)));
  }
  if (warp_of() == 3 && lane < count)
    rows.rates[lane] = sigmoid(p.b.data[(row0 + lane) * p.b.stride + head]);
  for (int i = warp_of(); i < 2 * count; i += 4) {
    const int r = i / 2;
    const float* in = p.in.data + (row0 + r) * p.in.stride + (i % 2) * keys + key_head * p.key_dim;
    normalise(in, p.key_dim, i % 2 == 0 ? 1.0f / sqrt_((float)p.key_dim) : 1.0f,
              i % 2 == 0 ? rows.queries[r] : rows.keys[r]);
  }
  const int column = (int)blockIdx.x * 32 + lane;
  for (int r = warp_of(); r < count; r += 4) {
    rows.values[r][lane] = column < p.value_dim ? p.in.data[(row0 + r) * p.in.stride + 2 * keys +
                                                            head * p.value_dim + column]
                                                : 0.0f;
  }
}

// Block: (32 columns of a value head, value head, segment); four lanes a column, lane l of them the keys
// 16 j + 4 l ... + 3. A column's state: [4 * Keys] floats, those beyond key_dim zero.
template <int Keys>
FT_DEVICE void delta_rule(const DeltaArgs& p, DeltaRows<Keys>& rows) {
  const int own_column = (int)threadIdx.x / 4, column = (int)blockIdx.x * 32 + own_column;
  const int l = (int)threadIdx.x & 3;
  const int head = (int)blockIdx.y, key_head = head / (p.value_heads / p.key_heads);
  const bool live = column < p.value_dim;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  u8* slot = p.slots + s.slot * p.slot_bytes;
  float* state = (float*)(slot + p.state_offset) +
                 ((long long)head * p.value_dim + (live ? column : 0)) * (4 * Keys) + l * 4;
  float* tape = (float*)(slot + p.tape_offset);
  float v[Keys];
  const bool fresh = s.position == s.replay;  // never read what an earlier timeline left in the slot
  FT_UNROLL for (int i = 0; i < Keys; i += 4) {
    const float4 four = fresh ? make_float4(0, 0, 0, 0) : *(const float4*)(state + i * 4);
    v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
  }
  for (int i = (int)threadIdx.x; i < kDeltaRows * 4 * Keys; i += 128)
    rows.queries[0][i] = rows.keys[0][i] = 0;
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
  for (int first = 0; first < s.rows; first += kDeltaRows) {
    const int count = min_(kDeltaRows, s.rows - first);
    sync_block();
    prepare_rows(p, s, first, count, rows);
    sync_block();
    for (int i = 0; i < count; i++) {
      const int r = first + i;
      const float *key = rows.keys[i] + l * 4, *query = rows.queries[i] + l * 4;
      const float g = rows.decays[i];
      float seen = 0;
      FT_UNROLL for (int j = 0; j < Keys; j += 4) {
        const float4 k = *(const float4*)(key + j * 4);
        v[j] = g * v[j], v[j + 1] = g * v[j + 1], v[j + 2] = g * v[j + 2], v[j + 3] = g * v[j + 3];
        seen = fma_(v[j], k.x, seen), seen = fma_(v[j + 1], k.y, seen);
        seen = fma_(v[j + 2], k.z, seen), seen = fma_(v[j + 3], k.w, seen);
      }
      seen = quarter_sum(seen);
      const float d = rows.rates[i] * (rows.values[i][own_column] - seen);
      float out = 0;
      FT_UNROLL for (int j = 0; j < Keys; j += 4) {
        const float4 k = *(const float4*)(key + j * 4), q = *(const float4*)(query + j * 4);
        v[j] = fma_(k.x, d, v[j]), v[j + 1] = fma_(k.y, d, v[j + 1]);
        v[j + 2] = fma_(k.z, d, v[j + 2]), v[j + 3] = fma_(k.w, d, v[j + 3]);
        out = fma_(v[j], q.x, out), out = fma_(v[j + 1], q.y, out);
        out = fma_(v[j + 2], q.z, out), out = fma_(v[j + 3], q.w, out);
      }
      out = quarter_sum(out);
      if (live && l == 0)
        p.out.data[(long long)(s.first_row + r) * p.out.stride + head * p.value_dim + column] = out;
      if (r == s.confirmed - 1) keep();
      if (r < s.confirmed) continue;
      float* entry = tape + (long long)((1 - s.tape) * kTapeRows + r - s.confirmed) * p.entry;
      if (live && l == 0) entry[keys + head * p.value_dim + column] = d;
      if (blockIdx.x != 0) continue;
      if (threadIdx.x == 64) entry[keys + p.value_heads * p.value_dim + head] = g;
      if (head % (p.value_heads / p.key_heads) == 0) {
        for (int j = (int)threadIdx.x; j < p.key_dim; j += 128)
          entry[key_head * p.key_dim + j] = rows.keys[i][j];
      }
    }
  }
}

}  // namespace ft::cuda

#define FT_DELTA(Keys)                                                \
  FT_KERNEL(delta_rule_##Keys, DeltaArgs, 128) {                      \
    FT_SHARED __attribute__((aligned(16))) DeltaRows<Keys> delta_rows; \
    release_next();                                                   \
    delta_rule<Keys>(p, delta_rows);                                  \
  }

namespace ft::cuda {

FT_DELTA(8)
FT_DELTA(16)
FT_DELTA(32)
FT_DELTA(64)

}  // namespace ft::cuda
