// A step of few rows: convolution, delta rule, gated norm and codes in one launch. A load of the previous
// launch's results takes a microsecond while the next linear's weights stream, so all are issued at once.
#include "backends/cuda/kernels/delta.cuh"
#include "backends/cuda/kernels/quantise.cuh"

namespace ft::cuda {

constexpr int kHead = 128, kStepThreads = 2 * kHead, kStepChannels = 3 * kHead;  // queries, keys, values
constexpr int kConvThreads = kStepChannels / 2;  // have two channels each; the last two warps make the gates

struct DeltaStepRows {
  float channels[kDeltaStepRows][kStepChannels];  // then after the convolution; the values become the results
  float queries[kDeltaStepRows][kHead], keys[kDeltaStepRows][kHead];
  float decays[kDeltaStepRows], rates[kDeltaStepRows];
  float norm[kHead];
  float decay, dt_bias;  // of the head
};

/// Issues all loads of the launch's rows together: each wait for results of others takes a microsecond.
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

/// The input of a row's gate: of the decay in the first warp after the convolution's, of the rate in
/// the second.
FT_DEVICE float load_gate(const DeltaArgs& p, const SegmentPlace& s) {
  const long long row = s.first_row + lane_of();
  if (threadIdx.x < kConvThreads || lane_of() >= s.rows) return 0;
  return warp_of() == kConvThreads / 32 ? p.a.data[row * p.a.stride + (int)blockIdx.x]
                                        : p.b.data[row * p.b.stride + (int)blockIdx.x];
}
/// In two halves: one during the convolution, one during the norms.
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

/// Normalises queries and keys as prepare_rows does.
FT_DEVICE void normalise_step(int count, DeltaStepRows& rows) {
  FT_LOOP for (int i = warp_of(); i < 2 * count; i += kConvThreads / 32) {
    const int r = i / 2;
    normalise(rows.channels[r] + i % 2 * kHead, kHead, i % 2 == 0 ? 1.0f / sqrt_((float)kHead) : 1.0f,
              i % 2 == 0 ? rows.queries[r] : rows.keys[r]);
  }
}

/// A row of the results, by a warp: norm, gate, and the codes for the next linear, as in gated_norm_codes.
FT_DEVICE float4 load_output_gate(const GatedNormArgs& p, const SegmentPlace& s, int r) {
  if (r >= s.rows) return make_float4(0, 0, 0, 0);
  return *(const float4*)(p.gate.data + (long long)(s.first_row + r) * p.gate.stride +
                          (int)blockIdx.x * kHead + lane_of() * 4);
}
template <bool Halves>
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
  store_rows<Halves, 4>(p.codes, (int)row, at, v, true);
}

// x: value head; y: segment. A thread has the columns threadIdx.x / 4 and 64 later.
template <bool Halves>
FT_DEVICE void delta_step_rows(const DeltaStepArgs& p) {
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
  if (warp_of() < s.rows) finish_step<Halves>(p.norm, s, warp_of(), output_gate, rows);
  FT_LOOP for (int r = warp_of() + kStepThreads / 32; r < s.rows; r += kStepThreads / 32)
      finish_step<Halves>(p.norm, s, r, load_output_gate(p.norm, s, r), rows);
}

FT_KERNEL_SHARING(delta_step, DeltaStepArgs, 256, 2) { delta_step_rows<false>(p); }
FT_KERNEL_SHARING(delta_step_half, DeltaStepArgs, 256, 2) { delta_step_rows<true>(p); }

}  // namespace ft::cuda
