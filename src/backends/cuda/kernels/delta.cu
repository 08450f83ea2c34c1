// The convolution and the gated delta rule, each token by token: a segment's rows in one thread or block.
#include "backends/cuda/kernels/delta.cuh"

namespace ft::cuda {

constexpr int kConvAhead = 8;  // rows that a thread loads at once

// One thread a channel; y: segment; z: its rows [32 z, 32 z + 32). Only the blocks with z = 0 read the ring;
// they write it afterwards.
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
  FT_UNROLL_4 for (int i = lane_of(); i < size; i += 32) {
    FT_UNROLL for (int r = 0; r < 4; r++) sum[r] = fma_(row[r][i], row[r][i], sum[r]);
  }
  FT_UNROLL for (int distance = 16; distance > 0; distance >>= 1) {  // warp_sum of each
    FT_UNROLL for (int r = 0; r < 4; r++) sum[r] = sum[r] + shuffle_xor(sum[r], distance);
  }
  FT_UNROLL for (int r = 0; r < 4; r++) factor[r] = scale / sqrt_(sum[r] + 1e-6f);
  FT_UNROLL_4 for (int i = lane_of(); i < size; i += 32) {
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
  FT_UNROLL_4 for (int i = (int)threadIdx.x - kRuleThreads; i < count * kDeltaColumns;
                i += DeltaRows<Keys>::kPrepare) {
    const int r = i / kDeltaColumns, column = (int)blockIdx.x * kDeltaColumns + i % kDeltaColumns;
    rows.values[r][i % kDeltaColumns] =
        column < p.value_dim ? values[(long long)r * p.in.stride + column] : 0.0f;
  }
}

/// The registers of a thread of the rule: columns threadIdx.x / 4 and 32 later. A column's state: [4 * Keys]
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
    FT_UNROLL_2 for (int i = 0; i < settled; i++) add(i);
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
  FT_UNROLL_4 for (int i = (int)threadIdx.x; i < 2 * kRows * 4 * Keys; i += DeltaRows<Keys>::kThreads) {
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
