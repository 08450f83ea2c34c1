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

/// l2-normalised query or key of a row, times 1 / sqrt(key_dim) the query.
FT_DEVICE void normalise(const float* in, int size, float scale, float* out) {
  float sum = 0;
  FT_FOURS for (int i = lane_of(); i < size; i += 32) sum = fma_(in[i], in[i], sum);
  const float factor = scale / sqrt_(warp_sum(sum) + 1e-6f);
  FT_FOURS for (int i = lane_of(); i < size; i += 32) out[i] = in[i] * factor;
}

/// Two columns of a state in registers: lane l of a column's four has the keys 16 j + 4 l ... + 3. `Keys` a
/// lane; those beyond key_dim are zero. A key that is read from shared memory serves both columns.
template <int Keys>
struct DeltaColumns {
  float v[2][Keys];

  /// From memory; `fresh`: zeros, never what an earlier timeline left in the slot.
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
  /// A row: what is stored under its key becomes more like `value` by `rate`; `out` is read with its query.
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

constexpr int kRuleThreads = 128;  // go token by token; the others prepare the rows that come next

/// Rows that are prepared together. Keys beyond key_dim stay zero.
template <int Keys>
struct DeltaRows {
  static constexpr int kRows = Keys > 32 ? 8 : 16;
  static constexpr int kThreads = Keys > 32 ? 256 : 384, kPrepare = kThreads - kRuleThreads;
  float queries[kRows][4 * Keys];
  float keys[kRows][4 * Keys];
  float values[kRows][kDeltaColumns];
  float decays[kRows];
  float rates[kRows];
};

/// Four rows at a time, as `normalise` has one. Rows from `count` on are the last one again.
template <int Keys>
FT_DEVICE void normalise_rows(const float* in, int stride, int first, int count, int size, float scale,
                              float (*out)[4 * Keys]) {
  const float* row[4];
  float* to[4];
  float sum[4] = {0, 0, 0, 0}, factor[4];
  FT_UNROLL for (int r = 0; r < 4; r++) {
    const int at = min_(first + r, count - 1);
    row[r] = in + (long long)at * stride, to[r] = out[at];
  }
  FT_FOURS for (int i = lane_of(); i < size; i += 32) {
    FT_UNROLL for (int r = 0; r < 4; r++) sum[r] = fma_(row[r][i], row[r][i], sum[r]);
  }
  FT_UNROLL for (int distance = 16; distance > 0; distance >>= 1) {  // warp_sum of each
    FT_UNROLL for (int r = 0; r < 4; r++) sum[r] = sum[r] + shuffle_xor(sum[r], distance);
  }
  FT_UNROLL for (int r = 0; r < 4; r++) factor[r] = scale / sqrt_(sum[r] + 1e-6f);
  FT_FOURS for (int i = lane_of(); i < size; i += 32) {
    FT_UNROLL for (int r = 0; r < 4; r++) to[r][i] = row[r][i] * factor[r];
  }
}

/// Rows [first, first + count) of the segment: queries and keys normalised, values, gates.
template <int Keys>
FT_DEVICE void prepare_rows(const DeltaArgs& p, const SegmentPlace& s, int first, int count,
                            DeltaRows<Keys>& rows) {
  const int head = (int)blockIdx.y, key_head = head / (p.value_heads / p.key_heads);
  const int keys = p.key_heads * p.key_dim, lane = lane_of(), warp = warp_of() - kRuleThreads / 32;
  const long long row0 = s.first_row + first;
  const float* in = p.in.data + row0 * p.in.stride;
  constexpr int kWarps = DeltaRows<Keys>::kPrepare / 32;
  if (warp == kWarps - 1 && lane < count) {
    const float a = p.a.data[(row0 + lane) * p.a.stride + head] + p.dt_bias[head];
    rows.decays[lane] = (float)exp_of_negative(-(double)(p.decay[head] * softplus(a)));
  }
  if (warp == kWarps - 2 && lane < count)
    rows.rates[lane] = sigmoid(p.b.data[(row0 + lane) * p.b.stride + head]);
  FT_LOOP for (int i = warp; i < (count + 3) / 4 * 2; i += kWarps) {
    const bool query = i % 2 == 0;
    normalise_rows<Keys>(in + (query ? 0 : keys) + key_head * p.key_dim, p.in.stride, i / 2 * 4, count,
                         p.key_dim, query ? 1.0f / sqrt_((float)p.key_dim) : 1.0f,
                         query ? rows.queries : rows.keys);
  }
  const float* values = in + 2 * keys + head * p.value_dim;
  FT_FOURS for (int i = (int)threadIdx.x - kRuleThreads; i < count * kDeltaColumns;
                i += DeltaRows<Keys>::kPrepare) {
    const int r = i / kDeltaColumns, column = (int)blockIdx.x * kDeltaColumns + i % kDeltaColumns;
    rows.values[r][i % kDeltaColumns] =
        column < p.value_dim ? values[(long long)r * p.in.stride + column] : 0.0f;
  }
}

/// What the threads of the rule have: the columns threadIdx.x / 4 and 32 later. A column's state: [4 * Keys]
/// floats, those beyond key_dim zero.
template <int Keys>
struct DeltaBlock {
  SegmentPlace segment;
  int head, key_head, column[2];
  bool live[2];
  float *state[2], *tape;
  DeltaColumns<Keys> columns;

  FT_DEVICE_MEMBER void begin(const DeltaArgs& p) {
    const SegmentPlace& s = segment;
    const int l = (int)threadIdx.x & 3;
    u8* slot = p.slots + s.slot * p.slot_bytes;
    tape = (float*)(slot + p.tape_offset);
    FT_UNROLL for (int c = 0; c < 2; c++) {
      column[c] = (int)blockIdx.x * kDeltaColumns + (int)threadIdx.x / 4 + 32 * c;
      live[c] = column[c] < p.value_dim;
      state[c] = (float*)(slot + p.state_offset) +
                 ((long long)head * p.value_dim + (live[c] ? column[c] : 0)) * (4 * Keys) + l * 4;
      columns.load(c, state[c], s.position == s.replay);
    }
    FT_LOOP for (int r = 0; r < s.replay; r++) {
      const float* entry = tape + (long long)(s.tape * kTapeRows + r) * p.entry;
      const float* changes = entry + p.key_heads * p.key_dim + head * p.value_dim;
      const float g = entry[p.key_heads * p.key_dim + p.value_heads * p.value_dim + head];
      const float change[2] = {live[0] ? changes[column[0]] : 0.0f, live[1] ? changes[column[1]] : 0.0f};
      columns.template replay<false>(entry + key_head * p.key_dim + l * 4, p.key_dim - l * 4, g, change);
    }
  }
  FT_DEVICE_MEMBER void keep() const {
    FT_UNROLL for (int c = 0; c < 2; c++) if (live[c]) columns.store(c, state[c]);
  }
  /// Rows [first, first + count), which are prepared.
  FT_DEVICE_MEMBER void run(const DeltaArgs& p, const DeltaRows<Keys>& rows, int first, int count) {
    const SegmentPlace& s = segment;
    const int own = (int)threadIdx.x / 4, l = (int)threadIdx.x & 3, keys = p.key_heads * p.key_dim;
    float change[2];
    const auto add = [&](int i) {
      const float value[2] = {rows.values[i][own], rows.values[i][own + 32]};
      float out[2];
      columns.add_row(rows.keys[i] + l * 4, rows.queries[i] + l * 4, rows.decays[i], rows.rates[i], value,
                      change, out);
      float* to = p.out.data + (long long)(s.first_row + first + i) * p.out.stride + head * p.value_dim;
      FT_UNROLL for (int c = 0; c < 2; c++) if (live[c] && l == 0) to[column[c]] = out[c];
    };
    const int settled = max_(0, min_(s.confirmed - first, count));
    FT_PAIRS for (int i = 0; i < settled; i++) add(i);
    if (settled > 0 && first + settled == s.confirmed) keep();
    FT_LOOP for (int i = settled; i < count; i++) {
      const int r = first + i;
      add(i);
      float* entry = tape + (long long)((1 - s.tape) * kTapeRows + r - s.confirmed) * p.entry;
      FT_UNROLL for (int c = 0; c < 2; c++) {
        if (live[c] && l == 0) entry[keys + head * p.value_dim + column[c]] = change[c];
      }
      if (blockIdx.x != 0) continue;
      if (threadIdx.x == 64) entry[keys + p.value_heads * p.value_dim + head] = rows.decays[i];
      if (head % (p.value_heads / p.key_heads) == 0) {
        FT_LOOP for (int j = (int)threadIdx.x; j < p.key_dim; j += kRuleThreads)
            entry[key_head * p.key_dim + j] = rows.keys[i][j];
      }
    }
  }
};

// Block: (64 columns of a value head, value head, segment).
template <int Keys>
FT_DEVICE void delta_rule(const DeltaArgs& p, DeltaRows<Keys> (&rows)[2]) {
  constexpr int kRows = DeltaRows<Keys>::kRows;
  const bool rule = threadIdx.x < kRuleThreads;
  DeltaBlock<Keys> block;
  const SegmentPlace& s = block.segment = p.step.segments[blockIdx.z];
  block.head = (int)blockIdx.y, block.key_head = block.head / (p.value_heads / p.key_heads);
  FT_FOURS for (int i = (int)threadIdx.x; i < 2 * kRows * 4 * Keys; i += DeltaRows<Keys>::kThreads) {
    const int part = i / (kRows * 4 * Keys), at = i % (kRows * 4 * Keys);
    rows[part].queries[0][at] = rows[part].keys[0][at] = 0;
  }
  if (rule) block.begin(p);
  sync_block();
  wait_for_rows();
  if (rule && s.confirmed == 0) block.keep();
  if (!rule) prepare_rows(p, s, 0, min_(kRows, s.rows), rows[0]);
  sync_block();
  FT_LOOP for (int first = 0, now = 0; first < s.rows; first += kRows, now ^= 1) {
    const int next = first + kRows;
    if (rule)
      block.run(p, rows[now], first, min_(kRows, s.rows - first));
    else if (next < s.rows)
      prepare_rows(p, s, next, min_(kRows, s.rows - next), rows[now ^ 1]);
    sync_block();
  }
}

}  // namespace ft::cuda

#define FT_DELTA(Keys, Threads)                                           \
  FT_KERNEL(delta_rule_##Keys, DeltaArgs, Threads) {                      \
    FT_SHARED __attribute__((aligned(16))) DeltaRows<Keys> delta_rows[2]; \
    release_next();                                                       \
    delta_rule<Keys>(p, delta_rows);                                      \
  }

namespace ft::cuda {

FT_DELTA(8, 384)
FT_DELTA(16, 384)
FT_DELTA(32, 384)
FT_DELTA(64, 256)

}  // namespace ft::cuda

namespace ft::cuda {

// ---- a step of few rows: convolution, delta rule, gated norm and codes in one launch ----

constexpr int kHead = 128, kStepThreads = 2 * kHead, kStepChannels = 3 * kHead;  // queries, keys, values
constexpr int kConvThreads = kStepChannels / 2;  // have two channels each; the last two warps make the gates

struct DeltaStepRows {
  float channels[kDeltaStepRows][kStepChannels];  // then after the convolution; the values become the results
  float queries[kDeltaStepRows][kHead], keys[kDeltaStepRows][kHead];
  float decays[kDeltaStepRows], rates[kDeltaStepRows];
  float norm[kHead];
  float decay, dt_bias;  // of the head
};

/// What the launch needs of its rows comes in one go: memory that others read takes a microsecond each time.
FT_DEVICE void fetch_step(const ConvArgs& p, const DeltaArgs& delta, const SegmentPlace& s,
                          DeltaStepRows& rows) {
  const int head = (int)blockIdx.x, key_head = head / (delta.value_heads / delta.key_heads);
  const int keys = delta.key_heads * kHead;
  FT_LOOP for (int i = (int)threadIdx.x; i < s.rows * (kStepChannels / 4); i += kStepThreads) {
    const int r = i / (kStepChannels / 4), channel = i % (kStepChannels / 4) * 4, part = channel / kHead;
    const int first = part == 2 ? 2 * keys + head * kHead : part * keys + key_head * kHead;
    copy_async(&rows.channels[r][channel],
               p.in.data + (long long)(s.first_row + r) * p.in.stride + first + channel % kHead);
  }
  end_copies();
}

/// A channel of the convolution, with the arithmetic of `conv`. Part 0 of the channels are queries, 1 keys, 2
/// values.
struct StepChannel {
  int c = 0, channel = 0;
  bool keeps = false;  // it writes the ring; of the heads with the same key one does
  float past[kMaxTaps], kernel[kMaxTaps];
  float* ring = nullptr;

  FT_DEVICE_MEMBER void begin(const ConvArgs& p, const DeltaArgs& delta, const SegmentPlace& s, int of_head) {
    channel = of_head;
    const int part = channel / kHead, head = (int)blockIdx.x;
    const int of_key = delta.value_heads / delta.key_heads, keys = delta.key_heads * kHead;
    keeps = part == 2 || head % of_key == 0;
    c = (part == 2 ? 2 * keys + head * kHead : (part == 1 ? keys : 0) + head / of_key * kHead) +
        channel % kHead;
    ring = (float*)(p.slots + s.slot * p.slot_bytes + p.offset) + c;
    FT_UNROLL for (int i = 0; i < kMaxTaps; i++) {
      const int source = s.position - 1 - i;
      past[i] = i < p.kernel_width - 1 && source >= 0 ? ring[(source % kRingRows) * p.in.width] : 0.0f;
      kernel[i] = i < p.kernel_width ? p.kernel[c * p.kernel_width + p.kernel_width - 1 - i] : 0.0f;
    }
  }
  FT_DEVICE_MEMBER void run(const ConvArgs& p, const SegmentPlace& s, DeltaStepRows& rows) {
    FT_LOOP for (int r = 0; r < s.rows; r++) {
      const float x = rows.channels[r][channel];
      float sum = 0;
      FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) if (i < p.kernel_width) sum =
          fma_(kernel[i], past[i - 1], sum);
      sum = fma_(kernel[0], x, sum);
      rows.channels[r][channel] = silu(sum);
      if (keeps) ring[((s.position + r) % kRingRows) * p.in.width] = x;
      FT_UNROLL for (int i = kMaxTaps - 1; i > 0; i--) past[i] = past[i - 1];
      past[0] = x;
    }
  }
};

/// What the gate of a row is made from: the decay's in the first warp after the convolution's, the rate's in
/// the second.
FT_DEVICE float load_gate(const DeltaArgs& p, const SegmentPlace& s) {
  const long long row = s.first_row + lane_of();
  if (threadIdx.x < kConvThreads || lane_of() >= s.rows) return 0;
  return warp_of() == kConvThreads / 32 ? p.a.data[row * p.a.stride + (int)blockIdx.x]
                                        : p.b.data[row * p.b.stride + (int)blockIdx.x];
}
/// In two halves, beside the convolution and beside the norms.
FT_DEVICE float begin_gate(float raw, const DeltaStepRows& rows) {
  return warp_of() == kConvThreads / 32 ? rows.decay * softplus(raw + rows.dt_bias) : raw;
}
FT_DEVICE void end_gate(const SegmentPlace& s, float begun, DeltaStepRows& rows) {
  if (lane_of() >= s.rows) return;
  if (warp_of() == kConvThreads / 32)
    rows.decays[lane_of()] = (float)exp_of_negative(-(double)begun);
  else
    rows.rates[lane_of()] = sigmoid(begun);
}

/// Queries and keys normalised, as prepare_rows has them.
FT_DEVICE void normalise_step(int count, DeltaStepRows& rows) {
  FT_LOOP for (int i = warp_of(); i < 2 * count; i += kConvThreads / 32) {
    const int r = i / 2;
    normalise(rows.channels[r] + i % 2 * kHead, kHead, i % 2 == 0 ? 1.0f / sqrt_((float)kHead) : 1.0f,
              i % 2 == 0 ? rows.queries[r] : rows.keys[r]);
  }
}

/// A row of the results, by a warp: norm, gate and codes of the linear behind them, as in gated_norm_codes.
FT_DEVICE float4 load_output_gate(const GatedNormArgs& p, const SegmentPlace& s, int r) {
  if (r >= s.rows) return make_float4(0, 0, 0, 0);
  return *(const float4*)(p.gate.data + (long long)(s.first_row + r) * p.gate.stride +
                          (int)blockIdx.x * kHead + lane_of() * 4);
}
FT_DEVICE void finish_step(const GatedNormArgs& p, const SegmentPlace& s, int r, float4 gates,
                           const DeltaStepRows& rows) {
  const int at = (int)blockIdx.x * kHead + lane_of() * 4;
  const long long row = s.first_row + r;
  float v[4], gate[4], weight[4];
  const float4 own = *(const float4*)&rows.channels[r][2 * kHead + lane_of() * 4];
  v[0] = own.x, v[1] = own.y, v[2] = own.z, v[3] = own.w;
  gate[0] = gates.x, gate[1] = gates.y, gate[2] = gates.z, gate[3] = gates.w;
  const float4 weights = *(const float4*)&rows.norm[lane_of() * 4];
  weight[0] = weights.x, weight[1] = weights.y, weight[2] = weights.z, weight[3] = weights.w;
  float sum = 0;
  FT_UNROLL for (int j = 0; j < 4; j++) sum = fma_(v[j], v[j], sum);
  const float factor = 1.0f / sqrt_(warp_sum(sum) / 128.0f + p.eps);
  FT_UNROLL for (int j = 0; j < 4; j++) v[j] = v[j] * factor * weight[j] * silu(gate[j]);
  if (p.out.data != nullptr)
    *(float4*)(p.out.data + row * p.out.stride + at) = make_float4(v[0], v[1], v[2], v[3]);
  store_codes<4>(p.codes, (int)row, at, v, true);
}

// x: value head; y: segment. A thread has the columns threadIdx.x / 4 and 64 later.
FT_KERNEL_SHARING(delta_step, DeltaStepArgs, 256, 2) {
  FT_SHARED __attribute__((aligned(16))) DeltaStepRows rows;
  release_next();
  const DeltaArgs& d = p.delta;
  const SegmentPlace s = d.step.segments[blockIdx.y];
  const int head = (int)blockIdx.x, key_head = head / (d.value_heads / d.key_heads);
  const int column = (int)threadIdx.x / 4, l = (int)threadIdx.x & 3;
  u8* slot = d.slots + s.slot * d.slot_bytes;
  float* state = (float*)(slot + d.state_offset) + ((long long)head * kHead + column) * kHead + l * 4;
  float* tape = (float*)(slot + d.tape_offset);
  constexpr int kOther = kHead / 2, kOtherState = kOther * kHead;  // of a thread's second column
  DeltaColumns<32> columns;
  columns.load(0, state, s.position == s.replay);
  columns.load(1, state + kOtherState, s.position == s.replay);
  const int keys = d.key_heads * kHead, values = d.value_heads * kHead;
  FT_LOOP for (int r = 0; r < s.replay; r++) {
    const float* entry = tape + (long long)(s.tape * kTapeRows + r) * d.entry;
    const float* changes = entry + keys + head * kHead + column;
    const float change[2] = {changes[0], changes[kOther]};
    columns.replay<true>(entry + key_head * kHead + l * 4, kHead, entry[keys + values + head], change);
  }
  const auto keep = [&] {
    columns.store(0, state);
    columns.store(1, state + kOtherState);
  };
  const bool convolves = threadIdx.x < kConvThreads;
  StepChannel channel, other;
  if (convolves) {
    channel.begin(p.conv, d, s, (int)threadIdx.x);
    other.begin(p.conv, d, s, kConvThreads + (int)threadIdx.x);
  }
  if (threadIdx.x < kHead / 4) copy_async(&rows.norm[threadIdx.x * 4], p.norm.weight + threadIdx.x * 4);
  if (threadIdx.x == 0) rows.decay = d.decay[head], rows.dt_bias = d.dt_bias[head];
  wait_for_rows();
  fetch_step(p.conv, d, s, rows);
  float step_gate = load_gate(d, s);
  const float4 output_gate = load_output_gate(p.norm, s, warp_of());
  copies_left<0>();
  sync_block();
  if (convolves) {
    channel.run(p.conv, s, rows);
    other.run(p.conv, s, rows);
  } else {
    step_gate = begin_gate(step_gate, rows);
  }
  sync_block();
  if (convolves)
    normalise_step(s.rows, rows);
  else
    end_gate(s, step_gate, rows);
  sync_block();
  if (s.confirmed == 0) keep();
  FT_LOOP for (int r = 0; r < s.rows; r++) {
    float* own = &rows.channels[r][2 * kHead + column];
    const float value[2] = {own[0], own[kOther]};
    float change[2], out[2];
    columns.add_row(rows.keys[r] + l * 4, rows.queries[r] + l * 4, rows.decays[r], rows.rates[r], value,
                    change, out);
    sync_warp();  // the four lanes of a column have read its value
    if (l == 0) own[0] = out[0], own[kOther] = out[1];
    if (r == s.confirmed - 1) keep();
    if (r < s.confirmed) continue;
    float* entry = tape + (long long)((1 - s.tape) * kTapeRows + r - s.confirmed) * d.entry;
    if (l == 0) {
      entry[keys + head * kHead + column] = change[0];
      entry[keys + head * kHead + column + kOther] = change[1];
    }
    if (threadIdx.x == 0) entry[keys + values + head] = rows.decays[r];
    if (head % (d.value_heads / d.key_heads) == 0 && threadIdx.x < kHead)
      entry[key_head * kHead + (int)threadIdx.x] = rows.keys[r][threadIdx.x];
  }
  sync_block();
  if (warp_of() < s.rows) finish_step(p.norm, s, warp_of(), output_gate, rows);
  FT_LOOP for (int r = warp_of() + kStepThreads / 32; r < s.rows; r += kStepThreads / 32)
    finish_step(p.norm, s, r, load_output_gate(p.norm, s, r), rows);
}

}  // namespace ft::cuda
