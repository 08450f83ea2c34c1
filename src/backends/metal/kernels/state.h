// Instructions with a past: the convolution, the gated delta rule with its tape, attention over blocks of
// positions. A timeline's recurrent state is `slot_floats` floats of one buffer.
#pragma once
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/kernels/language.h"

constant constexpr uint kRingRows = 32, kTapeRows = 16, kColumns = 8, kBlockPositions = 32, kChunkRows = 256;

// A thread is a column: it walks the rows of the segment in order. grid (width / 256, segments), 256 threads.
kernel void conv(const device float* x [[buffer(0)]], const device float* weight [[buffer(1)]],
                 device float* state [[buffer(2)]], device float* y [[buffer(3)]],
                 const device SegmentArgs* segments [[buffer(4)]], constant ConvArgs& a [[buffer(5)]],
                 uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                 uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint column = group.x * 256 + simd * kLanes + lane;
  if (column >= a.width) return;
  const device SegmentArgs* s = segments + group.y;
  device float* ring = state + uint(s->slot) * a.slot_floats + a.base + column;
  for (int r = 0; r < s->rows; ++r) {
    const int position = s->position + r;
    const uint row = uint(s->first_row + r);
    ring[uint(position) % kRingRows * a.width] = x[row * a.x_stride + column];
    float sum = 0.0f;
    for (int tap = 0; tap < int(a.taps); ++tap) {
      const int source = position - int(a.taps) + 1 + tap;
      if (source < 0) continue;
      sum = fma(weight[column * a.taps + uint(tap)], ring[uint(source) % kRingRows * a.width], sum);
    }
    y[row * a.y_stride + column] = silu_of(sum);
  }
}

// q and k of unit length in `ready` [rows][2][key_heads * key_dim], then decay and beta
// [rows][2][value_heads].
// grid (key_heads, rows), 32 threads.
kernel void delta_prepare(const device float* x [[buffer(0)]], const device float* decay [[buffer(1)]],
                          const device float* beta [[buffer(2)]], const device float* a_log [[buffer(3)]],
                          const device float* dt_bias [[buffer(4)]], device float* ready [[buffer(5)]],
                          constant DeltaArgs& a [[buffer(6)]], uint3 group [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]],
                          uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint keys = a.key_heads * a.key_dim, row = group.y;
  device float* out = ready + row * 2 * keys + simd;
  for (uint half_index = 0; half_index < 2; ++half_index) {
    const device float* in = x + row * a.x_stride + half_index * keys + group.x * a.key_dim;
    float sum = 0.0f;
    for (uint i = lane; i < a.key_dim; i += kLanes) sum = fma(in[i], in[i], sum);
    float scale = 1.0f / FT_SQRT(lanes_sum(sum) + 1e-6f);
    if (half_index == 0) scale = scale / FT_SQRT(float(a.key_dim));
    for (uint i = lane; i < a.key_dim; i += kLanes)
      out[half_index * keys + group.x * a.key_dim + i] = in[i] * scale;
  }
  if (group.x != 0) return;
  device float* gates = ready + a.rows * 2 * keys + row * 2 * a.value_heads;
  for (uint h = lane; h < a.value_heads; h += kLanes) {
    gates[h] = FT_EXP(-FT_EXP(a_log[h]) * softplus_of(decay[row * a.a_stride + h] + dt_bias[h]));
    gates[a.value_heads + h] = sigmoid_of(beta[row * a.b_stride + h]);
  }
}

// A lane owns one column and a quarter of the keys: KEYS values of the state.
template <int KEYS>
inline float quarter_sum(const thread float* s, const device float* k, uint first, uint count) {
  float sum = 0.0f;
  for (int i = 0; i < KEYS; ++i)
    if (uint(i) < count) sum = fma(s[i], k[first + uint(i)], sum);
  sum += simd_shuffle_xor(sum, 8);
  sum += simd_shuffle_xor(sum, 16);
  return sum;
}

// Replays the tape, then goes token by token; the state is written once, after the confirmed rows. The matrix
// of
// a head is [value_dim / 8][KEYS][lane]; an entry of the tape is k of all key heads, d of all value heads,
// then the decays. grid (value_dim / 8, value_heads, segments), 32 threads.
template <int KEYS>
kernel void delta_rule(const device float* x [[buffer(0)]], const device float* ready [[buffer(1)]],
                       device float* state [[buffer(2)]], device float* y [[buffer(3)]],
                       const device SegmentArgs* segments [[buffer(4)]], constant DeltaArgs& a [[buffer(5)]],
                       uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  const device SegmentArgs* segment = segments + group.z;
  const uint head = group.y, column = group.x * kColumns + lane % kColumns + simd;
  const uint key_head = head / (a.value_heads / a.key_heads), keys = a.key_heads * a.key_dim;
  const uint values = a.value_heads * a.value_dim, entry_floats = keys + values + a.value_heads;
  const uint quarter = (a.key_dim + 3) / 4, first = lane / kColumns * quarter;
  const uint count = first < a.key_dim ? min(quarter, a.key_dim - first) : 0;
  const bool real = column < a.value_dim;
  device float* slot = state + uint(segment->slot) * a.slot_floats;
  device float* stored =
      slot + a.base + ((head * ((a.value_dim + kColumns - 1) / kColumns) + group.x) * uint(KEYS)) * kLanes +
      lane;
  float s[KEYS];
  for (int i = 0; i < KEYS; ++i) s[i] = segment->fresh != 0 ? 0.0f : stored[uint(i) * kLanes];
  const device float* gates = ready + a.rows * 2 * keys;
  for (int r = 0; r < segment->replay; ++r) {
    const device float* entry = slot + a.tape + (uint(segment->tape) * kTapeRows + uint(r)) * entry_floats;
    const float g = entry[keys + values + head], d = real ? entry[keys + head * a.value_dim + column] : 0.0f;
    const device float* k = entry + key_head * a.key_dim + first;
    for (int i = 0; i < KEYS; ++i)
      if (uint(i) < count) s[i] = fma(k[i], d, g * s[i]);
  }
  for (int r = 0; r < segment->rows; ++r) {
    if (r == segment->confirmed)
      for (int i = 0; i < KEYS; ++i) stored[uint(i) * kLanes] = s[i];
    const uint row = uint(segment->first_row + r);
    const device float* q = ready + row * 2 * keys + key_head * a.key_dim;
    const device float* k = q + keys;
    const float g = gates[row * 2 * a.value_heads + head];
    const float beta = gates[row * 2 * a.value_heads + a.value_heads + head];
    for (int i = 0; i < KEYS; ++i)
      if (uint(i) < count) s[i] = g * s[i];
    const float seen = quarter_sum<KEYS>(s, k, first, count);
    const float v = real ? x[row * a.x_stride + 2 * keys + head * a.value_dim + column] : 0.0f;
    const float d = beta * (v - seen);
    for (int i = 0; i < KEYS; ++i)
      if (uint(i) < count) s[i] = fma(k[first + uint(i)], d, s[i]);
    const float out = quarter_sum<KEYS>(s, q, first, count);
    if (lane < kColumns && real) y[row * a.y_stride + head * a.value_dim + column] = out;
    if (r < segment->confirmed) continue;
    device float* entry =
        slot + a.tape +
        ((1u - uint(segment->tape)) * kTapeRows + uint(r - segment->confirmed)) * entry_floats;
    if (lane < kColumns && real) entry[keys + head * a.value_dim + column] = d;
    if (group.x != 0) continue;
    if (lane == 0) entry[keys + values + head] = g;
    if (head % (a.value_heads / a.key_heads) == 0)
      for (uint i = lane; i < a.key_dim; i += kLanes) entry[key_head * a.key_dim + i] = k[i];
  }
  if (segment->confirmed >= segment->rows)
    for (int i = 0; i < KEYS; ++i) stored[uint(i) * kLanes] = s[i];
}

// Norm and rotation of one head; element i of the result. turns: cos, sin of each frequency.
inline float prepared(const device float* in, const device float* weight, const device float* turns,
                      float scale, uint normalised, uint rotary, uint i) {
  const float own = in[i] * scale * (normalised != 0 ? weight[i] : 1.0f);
  const uint half_size = rotary / 2;
  if (i >= 2 * half_size) return own;
  const uint other = i < half_size ? i + half_size : i - half_size, j = i < half_size ? i : other;
  const float far = in[other] * scale * (normalised != 0 ? weight[other] : 1.0f);
  const float c = turns[j * 2], s = turns[j * 2 + 1];
  return i < half_size ? fma(own, c, -(far * s)) : fma(far, s, own * c);
}

inline float head_scale(const device float* in, uint size, float eps, uint lane) {
  float sum = 0.0f;
  for (uint i = lane; i < size; i += kLanes) sum = fma(in[i], in[i], sum);
  return 1.0f / FT_SQRT(lanes_sum(sum) / float(size) + eps);
}

// The largest magnitude of a simdgroup: exact in any order.
inline float lanes_max(float x) {
  x = max(x, simd_shuffle_xor(x, 16));
  x = max(x, simd_shuffle_xor(x, 8));
  x = max(x, simd_shuffle_xor(x, 4));
  x = max(x, simd_shuffle_xor(x, 2));
  x = max(x, simd_shuffle_xor(x, 1));
  return x;
}

// Keys and values of 8 bits: bytes of the 32 positions, then their scales. 16-bit numbers of both.
inline uint side_halves8(uint size) { return kBlockPositions / 2 * (size + 4); }

// The nearest integer as a byte of two's complement: 1.5 * 2^23 leaves it in the low bits.
inline uchar byte_of(float x) { return uchar(as_type<uint>(x + 12582912.0f) & 255u); }
inline float value_of_byte(uchar code) { return float(int(code ^ 128) - 128); }

// A row's key or value in its block. head: 2 * kv_head, + 1 for values. turns: null for values.
template <int BITS>
inline void keep(const device float* in, const device float* weight, const device float* turns, float scale,
                 uint normalised, uint rotary, uint size, device half* side, uint position, uint lane) {
  if (BITS == 16) {
    device half* out = side + position * size;
    for (uint i = lane; i < size; i += kLanes)
      out[i] = half(prepared(in, weight, turns, scale, normalised, rotary, i));
    return;
  }
  float most = 0.0f;
  for (uint i = lane; i < size; i += kLanes)
    most = max(most, abs(prepared(in, weight, turns, scale, normalised, rotary, i)));
  most = lanes_max(most);
  const float codes_of_one = most > 0.0f ? 127.0f / most : 0.0f;
  device uchar* codes = (device uchar*)side + position * size;
  for (uint i = lane; i < size; i += kLanes)
    codes[i] = byte_of(prepared(in, weight, turns, scale, normalised, rotary, i) * codes_of_one);
  device float* scales = (device float*)((device uchar*)side + kBlockPositions * size);
  if (lane == 0) scales[position] = most / 127.0f;
}

// Queries into `ready` [rows][heads][head_dim]; keys and values into the row's block: [kv_heads][2] sides of
// [32][head_dim], 16-bit numbers or bytes and scales. grid (heads + 2 * kv_heads, rows), 32 threads.
template <int BITS>
kernel void attend_prepare(const device float* q [[buffer(0)]], const device float* k [[buffer(1)]],
                           const device float* v [[buffer(2)]], const device float* q_norm [[buffer(3)]],
                           const device float* k_norm [[buffer(4)]], const device float* turns [[buffer(5)]],
                           const device RowArgs* rows [[buffer(6)]], const device int* blocks [[buffer(7)]],
                           device float* ready [[buffer(8)]], device half* cache [[buffer(9)]],
                           constant AttendArgs& a [[buffer(10)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]],
                           uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint row = group.y, size = a.head_dim;
  const device float* turn = turns + row * a.rotary;
  if (group.x < a.heads) {
    const device float* in = q + row * a.q_stride + group.x * size * (a.gated != 0 ? 2u : 1u) + simd;
    const float scale = a.normalises_q != 0 ? head_scale(in, size, a.eps, lane) : 1.0f;
    for (uint i = lane; i < size; i += kLanes)
      ready[(row * a.heads + group.x) * size + i] =
          prepared(in, q_norm, turn, scale, a.normalises_q, a.rotary, i) * a.scale;
    return;
  }
  if (a.shared != 0) return;
  const uint index = group.x - a.heads, head = index % a.kv_heads, position = uint(rows[row].position);
  const uint block = uint(blocks[uint(rows[row].block) + position / kBlockPositions]);
  const bool is_key = index < a.kv_heads;
  const uint side_halves = BITS == 16 ? kBlockPositions * size : side_halves8(size);
  device half* side =
      cache + ulong(block) * a.block_halves + a.base + (head * 2 + (is_key ? 0u : 1u)) * side_halves;
  const device float* in = is_key ? k + row * a.k_stride + head * size : v + row * a.v_stride + head * size;
  const bool normalises = is_key ? a.normalises_k != 0 : a.normalises_v != 0;
  const float scale = normalises ? head_scale(in, size, a.eps, lane) : 1.0f;
  keep<BITS>(in, k_norm, turn, scale, is_key ? a.normalises_k : 0u, is_key ? a.rotary : 0u, size, side,
             position % kBlockPositions, lane);
}

template <int BITS>
inline float kept(const device half* side, uint at) {
  return BITS == 16 ? float(side[at]) : value_of_byte(((const device uchar*)side)[at]);
}
template <int BITS>
inline float scale_of(const device half* side, uint position, uint size) {
  if (BITS == 16) return 1.0f;
  return ((const device float*)((const device uchar*)side + kBlockPositions * size))[position];
}

// One chunk of 256 positions for one row and the query heads of a key head: softmax in order of positions.
// The
// borders are absolute positions, so nothing depends on the length or on neighbours.
// part: [rows of the launch][heads][chunks][head_dim + 2]. grid (chunks, kv_heads, rows), 32 * heads /
// kv_heads threads.
template <int PIECES, int BITS>
kernel void attend_chunk(const device float* ready [[buffer(0)]], const device half* cache [[buffer(1)]],
                         const device RowArgs* rows [[buffer(2)]], const device int* blocks [[buffer(3)]],
                         device float* part [[buffer(4)]], constant AttendArgs& a [[buffer(5)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint row = a.first_row + group.z, head = group.y * (a.heads / a.kv_heads) + simd, size = a.head_dim;
  const int first = max(int(group.x * kChunkRows), rows[row].seen_first);
  const int last = min(int(group.x * kChunkRows + kChunkRows) - 1, rows[row].seen_last);
  if (first > last) return;
  float best = -INFINITY, sum = 0.0f;
  float o[PIECES], in[PIECES];
  for (int i = 0; i < PIECES; ++i) {
    const uint at = uint(i) * kLanes + lane;
    o[i] = 0.0f;
    in[i] = at < size ? ready[(row * a.heads + head) * size + at] : 0.0f;
  }
  for (int p = first; p <= last; ++p) {
    const uint block = uint(blocks[uint(rows[row].block) + uint(p) / kBlockPositions]);
    const uint place = uint(p) % kBlockPositions;
    const uint side_halves = BITS == 16 ? kBlockPositions * size : side_halves8(size);
    const device half* keys = cache + ulong(block) * a.block_halves + a.base + group.y * 2 * side_halves;
    const device half* values = keys + side_halves;
    float score = 0.0f;
    for (int i = 0; i < PIECES; ++i) {
      const uint at = uint(i) * kLanes + lane;
      if (at < size) score = fma(in[i], kept<BITS>(keys, place * size + at), score);
    }
    score = lanes_sum(score) * scale_of<BITS>(keys, place, size);
    const float value_scale = scale_of<BITS>(values, place, size);
    const float above = max(best, score), old = FT_EXP(best - above), now = FT_EXP(score - above);
    best = above;
    sum = fma(sum, old, now);
    for (int i = 0; i < PIECES; ++i) {
      const uint at = uint(i) * kLanes + lane;
      if (at < size) o[i] = fma(now * value_scale, kept<BITS>(values, place * size + at), o[i] * old);
    }
  }
  device float* out = part + ((group.z * a.heads + head) * a.chunks + group.x) * (size + 2);
  for (int i = 0; i < PIECES; ++i) {
    const uint at = uint(i) * kLanes + lane;
    if (at < size) out[at] = o[i];
  }
  if (lane == 0) {
    out[size] = best;
    out[size + 1] = sum;
  }
}

// The chunks of a row in order, then the output gate. grid (heads, rows), 32 threads.
kernel void attend_merge(const device float* part [[buffer(0)]], const device RowArgs* rows [[buffer(1)]],
                         const device float* q [[buffer(2)]], device float* y [[buffer(3)]],
                         constant AttendArgs& a [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint row = a.first_row + group.y, head = group.x + simd, size = a.head_dim;
  const uint begin = uint(rows[row].seen_first) / kChunkRows,
             end = uint(rows[row].seen_last) / kChunkRows + 1;
  const device float* in = part + (group.y * a.heads + head) * a.chunks * (size + 2);
  float best = -INFINITY;
  for (uint c = begin; c < end; ++c) best = max(best, in[c * (size + 2) + size]);
  float sum = 0.0f;
  for (uint c = begin; c < end; ++c)
    sum = fma(FT_EXP(in[c * (size + 2) + size] - best), in[c * (size + 2) + size + 1], sum);
  for (uint i = lane; i < size; i += kLanes) {
    float o = 0.0f;
    for (uint c = begin; c < end; ++c)
      o = fma(FT_EXP(in[c * (size + 2) + size] - best), in[c * (size + 2) + i], o);
    o = o / sum;
    if (a.gated != 0) o *= sigmoid_of(q[row * a.q_stride + head * 2 * size + size + i]);
    y[row * a.y_stride + head * size + i] = o;
  }
}
