// The convolution and the gated delta rule, each token by token: a segment's rows in one thread or block.
#include "backends/cuda/kernels/quantise.cuh"

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
  FT_FOURS for (int i = lane_of(); i < size; i += 32) sum = fma_(in[i], in[i], sum);
  const float factor = scale / sqrt_(warp_sum(sum) + 1e-6f);
  FT_FOURS for (int i = lane_of(); i < size; i += 32) out[i] = in[i] * factor;
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
  FT_LOOP for (int i = warp_of(); i < 2 * count; i += 4) {
    const int r = i / 2;
    const float* in = p.in.data + (row0 + r) * p.in.stride + (i % 2) * keys + key_head * p.key_dim;
    normalise(in, p.key_dim, i % 2 == 0 ? 1.0f / sqrt_((float)p.key_dim) : 1.0f,
              i % 2 == 0 ? rows.queries[r] : rows.keys[r]);
  }
  const int column = (int)blockIdx.x * 32 + lane;
  FT_LOOP for (int r = warp_of(); r < count; r += 4) {
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
  FT_FOURS for (int i = (int)threadIdx.x; i < kDeltaRows * 4 * Keys; i += 128)
    rows.queries[0][i] = rows.keys[0][i] = 0;
  FT_LOOP for (int r = 0; r < s.replay; r++) {
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
  FT_LOOP for (int first = 0; first < s.rows; first += kDeltaRows) {
    const int count = min_(kDeltaRows, s.rows - first);
    sync_block();
    prepare_rows(p, s, first, count, rows);
    sync_block();
    FT_LOOP for (int i = 0; i < count; i++) {
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
        FT_LOOP for (int j = (int)threadIdx.x; j < p.key_dim; j += 128)
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

namespace ft::cuda {

// ---- a step of few rows: convolution, delta rule, gated norm and codes in one launch ----

constexpr int kHead = 128, kStepThreads = 4 * kHead, kStepChannels = 3 * kHead;  // queries, keys, values

struct DeltaStepRows {
  float channels[kDeltaStepRows][kStepChannels];  // after the convolution; the values become the results
  float queries[kDeltaStepRows][kHead], keys[kDeltaStepRows][kHead];
  float decays[kDeltaStepRows], rates[kDeltaStepRows];
};

/// A thread's channel of the convolution, with the arithmetic of `conv`.
struct StepChannel {
  int c;
  bool live, keeps;  // keeps: it writes the ring; of the heads with the same key one does
  float past[kMaxTaps], kernel[kMaxTaps];
  float* ring;

  FT_DEVICE_MEMBER void begin(const ConvArgs& p, const DeltaArgs& delta, const SegmentPlace& s) {
    const int part = (int)threadIdx.x / kHead, in_head = (int)threadIdx.x % kHead, head = (int)blockIdx.x;
    const int of_key = delta.value_heads / delta.key_heads, keys = delta.key_heads * kHead;
    live = part < 3, keeps = part == 2 || head % of_key == 0;
    c = (part == 2 ? 2 * keys + head * kHead : (part == 1 ? keys : 0) + head / of_key * kHead) + in_head;
    if (!live) return;
    ring = (float*)(p.slots + s.slot * p.slot_bytes + p.offset) + c;
    FT_UNROLL for (int i = 0; i < kMaxTaps; i++) {
      const int source = s.position - 1 - i;
      past[i] = i < p.kernel_width - 1 && source >= 0 ? ring[(source % kRingRows) * p.in.width] : 0.0f;
      kernel[i] = i < p.kernel_width ? p.kernel[c * p.kernel_width + p.kernel_width - 1 - i] : 0.0f;
    }
  }
  FT_DEVICE_MEMBER void run(const ConvArgs& p, const SegmentPlace& s, DeltaStepRows& rows) {
    if (!live) return;
    const float* in = p.in.data + (long long)s.first_row * p.in.stride + c;
    FT_LOOP for (int r = 0; r < s.rows; r++) {
      const float x = in[(long long)r * p.in.stride];
      float sum = 0;
      FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) if (i < p.kernel_width) sum =
          fma_(kernel[i], past[i - 1], sum);
      sum = fma_(kernel[0], x, sum);
      rows.channels[r][threadIdx.x] = silu(sum);
      if (keeps) ring[((s.position + r) % kRingRows) * p.in.width] = x;
      FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) past[i] = past[i - 1];
      past[0] = x;
    }
  }
};

/// Gates, and queries and keys normalised, as prepare_rows has them.
FT_DEVICE void prepare_step(const DeltaArgs& p, const SegmentPlace& s, DeltaStepRows& rows) {
  const int head = (int)blockIdx.x, lane = lane_of();
  const long long row = s.first_row + lane;
  if (warp_of() == 14 && lane < s.rows) {
    const float a = p.a.data[row * p.a.stride + head] + p.dt_bias[head];
    rows.decays[lane] = (float)exp_of_negative(-(double)(p.decay[head] * softplus(a)));
  }
  if (warp_of() == 15 && lane < s.rows) rows.rates[lane] = sigmoid(p.b.data[row * p.b.stride + head]);
  FT_LOOP for (int i = warp_of(); i < 2 * s.rows; i += kStepThreads / 32) {
    const int r = i / 2;
    normalise(rows.channels[r] + i % 2 * kHead, kHead, i % 2 == 0 ? 1.0f / sqrt_((float)kHead) : 1.0f,
              i % 2 == 0 ? rows.queries[r] : rows.keys[r]);
  }
}

/// Row `warp` of the results: norm, gate and codes of the linear behind them, as in gated_norm_codes.
FT_DEVICE void finish_step(const GatedNormArgs& p, const SegmentPlace& s, const DeltaStepRows& rows) {
  const int r = warp_of(), at = (int)blockIdx.x * kHead + lane_of() * 4;
  if (r >= s.rows) return;
  const long long row = s.first_row + r;
  float v[4], gate[4], weight[4];
  const float4 own = *(const float4*)&rows.channels[r][2 * kHead + lane_of() * 4];
  v[0] = own.x, v[1] = own.y, v[2] = own.z, v[3] = own.w;
  const float4 gates = *(const float4*)(p.gate.data + row * p.gate.stride + at);
  gate[0] = gates.x, gate[1] = gates.y, gate[2] = gates.z, gate[3] = gates.w;
  const float4 weights = *(const float4*)(p.weight + lane_of() * 4);
  weight[0] = weights.x, weight[1] = weights.y, weight[2] = weights.z, weight[3] = weights.w;
  float sum = 0;
  FT_UNROLL for (int j = 0; j < 4; j++) sum = fma_(v[j], v[j], sum);
  const float factor = 1.0f / sqrt_(warp_sum(sum) / 128.0f + p.eps);
  FT_UNROLL for (int j = 0; j < 4; j++) v[j] = v[j] * factor * weight[j] * silu(gate[j]);
  if (p.out.data != nullptr)
    *(float4*)(p.out.data + row * p.out.stride + at) = make_float4(v[0], v[1], v[2], v[3]);
  store_codes<4>(p.codes, (int)row, at, v, true);
}

// x: value head; y: segment. Four lanes a column, as in delta_rule.
FT_KERNEL(delta_step, DeltaStepArgs, 512) {
  FT_SHARED __attribute__((aligned(16))) DeltaStepRows rows;
  release_next();
  const DeltaArgs& d = p.delta;
  const SegmentPlace s = d.step.segments[blockIdx.y];
  const int head = (int)blockIdx.x, key_head = head / (d.value_heads / d.key_heads);
  const int column = (int)threadIdx.x / 4, l = (int)threadIdx.x & 3;
  u8* slot = d.slots + s.slot * d.slot_bytes;
  float* state = (float*)(slot + d.state_offset) + ((long long)head * kHead + column) * kHead + l * 4;
  float* tape = (float*)(slot + d.tape_offset);
  const bool fresh = s.position == s.replay;
  float v[32];
  FT_UNROLL for (int i = 0; i < 32; i += 4) {
    const float4 four = fresh ? make_float4(0, 0, 0, 0) : *(const float4*)(state + i * 4);
    v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
  }
  const int keys = d.key_heads * kHead, values = d.value_heads * kHead;
  FT_LOOP for (int r = 0; r < s.replay; r++) {
    const float* entry = tape + (long long)(s.tape * kTapeRows + r) * d.entry;
    const float* k = entry + key_head * kHead + l * 4;
    const float own = entry[keys + head * kHead + column], g = entry[keys + values + head];
    FT_UNROLL for (int i = 0; i < 32; i += 4) {
      const float4 four = *(const float4*)(k + i * 4);
      v[i] = fma_(four.x, own, g * v[i]), v[i + 1] = fma_(four.y, own, g * v[i + 1]);
      v[i + 2] = fma_(four.z, own, g * v[i + 2]), v[i + 3] = fma_(four.w, own, g * v[i + 3]);
    }
  }
  const auto keep = [&] {
    FT_UNROLL for (int i = 0; i < 32; i += 4) * (float4*)(state + i * 4) =
        make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
  };
  StepChannel channel;
  channel.begin(p.conv, d, s);
  wait_for_rows();
  channel.run(p.conv, s, rows);
  sync_block();
  prepare_step(d, s, rows);
  sync_block();
  if (s.confirmed == 0) keep();
  FT_LOOP for (int r = 0; r < s.rows; r++) {
    const float *key = rows.keys[r] + l * 4, *query = rows.queries[r] + l * 4;
    const float g = rows.decays[r];
    float seen = 0;
    FT_UNROLL for (int j = 0; j < 32; j += 4) {
      const float4 k = *(const float4*)(key + j * 4);
      v[j] = g * v[j], v[j + 1] = g * v[j + 1], v[j + 2] = g * v[j + 2], v[j + 3] = g * v[j + 3];
      seen = fma_(v[j], k.x, seen), seen = fma_(v[j + 1], k.y, seen);
      seen = fma_(v[j + 2], k.z, seen), seen = fma_(v[j + 3], k.w, seen);
    }
    seen = quarter_sum(seen);
    float& value = rows.channels[r][2 * kHead + column];
    const float change = rows.rates[r] * (value - seen);
    float out = 0;
    FT_UNROLL for (int j = 0; j < 32; j += 4) {
      const float4 k = *(const float4*)(key + j * 4), q = *(const float4*)(query + j * 4);
      v[j] = fma_(k.x, change, v[j]), v[j + 1] = fma_(k.y, change, v[j + 1]);
      v[j + 2] = fma_(k.z, change, v[j + 2]), v[j + 3] = fma_(k.w, change, v[j + 3]);
      out = fma_(v[j], q.x, out), out = fma_(v[j + 1], q.y, out);
      out = fma_(v[j + 2], q.z, out), out = fma_(v[j + 3], q.w, out);
    }
    out = quarter_sum(out);
    sync_warp();  // the four lanes of a column have read its value
    if (l == 0) value = out;
    if (r == s.confirmed - 1) keep();
    if (r < s.confirmed) continue;
    float* entry = tape + (long long)((1 - s.tape) * kTapeRows + r - s.confirmed) * d.entry;
    if (l == 0) entry[keys + head * kHead + column] = change;
    if (threadIdx.x == 0) entry[keys + values + head] = g;
    if (head % (d.value_heads / d.key_heads) == 0 && threadIdx.x < kHead)
      entry[key_head * kHead + (int)threadIdx.x] = rows.keys[r][threadIdx.x];
  }
  sync_block();
  finish_step(p.norm, s, rows);
}

}  // namespace ft::cuda
