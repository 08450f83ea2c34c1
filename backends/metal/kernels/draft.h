// The tokens of draft rows: the highest logit, or a draw of the distribution after temperature, top-k, top-p
// and min-p. The noise is that of the host (sampling/philox.h), its logarithms in float: a draft need only
// agree with the target's choice nearly always. Every choice is a maximum, ties go to the lower token, so no
// order of threads can change one. A part is kDraftColumns columns; more logits than that are parts side by
// side, which the last kernel brings together. Nothing here is used for a token that is emitted.
#pragma once
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/kernels/language.h"
#include "backends/metal/kernels/norm.h"

constant constexpr uint kDraftColumns = 4096, kDraftShare = kDraftColumns / 256;
constant constexpr float kNoToken = 16777216.0f;  // above every token: they are whole numbers in float
constant constexpr float kMostNoise = 23.0f;      // -log(-log(1 - 2^-33)) is 22.9

struct DraftBest {
  float score, token;
};

inline DraftBest better_draft(DraftBest a, DraftBest b) {
  return b.score > a.score || (b.score == a.score && b.token < a.token) ? b : a;
}

// The best over a threadgroup of 256 threads, the same in every thread.
inline DraftBest best_of_group(DraftBest own, threadgroup float* scores, threadgroup float* tokens, uint lane,
                               uint simd) {
  for (int distance = 16; distance > 0; distance /= 2) {
    DraftBest other;
    other.score = simd_shuffle_xor(own.score, ushort(distance));
    other.token = simd_shuffle_xor(own.token, ushort(distance));
    own = better_draft(own, other);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) scores[simd] = own.score, tokens[simd] = own.token;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = 0; i < 8; ++i) {
    DraftBest other;
    other.score = scores[i], other.token = tokens[i];
    own = better_draft(own, other);
  }
  return own;
}

inline DraftBest no_draft() {
  DraftBest none;
  none.score = -INFINITY, none.token = kNoToken;
  return none;
}

// The best of the parts that a kernel before has left for a row.
inline DraftBest best_of_parts(const device float* parts, uint count, threadgroup float* scores,
                               threadgroup float* tokens, uint lane, uint simd) {
  DraftBest own = no_draft();
  for (uint i = simd * kLanes + lane; i < count; i += 256) {
    DraftBest other;
    other.score = parts[2 * i], other.token = parts[2 * i + 1];
    own = better_draft(own, other);
  }
  return best_of_group(own, scores, tokens, lane, simd);
}

// A logit with its bias as the host sees it: NaN never, infinity the largest float.
inline float draft_logit(float value, int token, const device DraftRowArgs* row) {
  for (uint i = 0; i < row->biases; ++i) {
    if (row->bias_tokens[i] == token) value += row->bias_values[i];
  }
  const float largest = as_type<float>(0x7f7fffffu);
  if (!(value > -INFINITY)) return -INFINITY;
  return value > largest ? largest : value;
}

// Four neighbouring columns of a thread at a time: they share a block of noise where columns are tokens.
inline uint draft_column(uint part, uint i, uint thread_of_group) {
  return part * kDraftColumns + i / 4 * 1024 + thread_of_group * 4 + i % 4;
}

struct DraftWords {
  uint a, b, c, d;
};

// Philox 4x32-10 (sampling/philox.h).
inline DraftWords draft_words(uint group, const device DraftRowArgs* row) {
  DraftWords w;
  w.a = group, w.b = row->position_low, w.c = row->position_high, w.d = 2u * row->stream;
  uint key = row->seed_low, other_key = row->seed_high;
  for (int round = 0; round < 10; ++round) {
    const ulong p = ulong(0xD2511F53u) * ulong(w.a), q = ulong(0xCD9E8D57u) * ulong(w.c);
    w.a = uint(q >> 32) ^ w.b ^ key;
    w.c = uint(p >> 32) ^ w.d ^ other_key;
    w.b = uint(q);
    w.d = uint(p);
    key += 0x9E3779B9u;
    other_key += 0xBB67AE85u;
  }
  return w;
}

// -log(-log(u)), u = (upper + 0.5) / 2^32. Near one, -log(u) is that of 1 - r with a small r, which is exact.
inline float draft_noise(uint upper) {
  const float cell = 2.3283064365386963e-10f;  // 2^-32
  float exponential;
  if (upper < 0x80000000u) {
    exponential = -FT_LOG((float(upper) + 0.5f) * cell);
  } else {
    const float r = (float(~upper) + 0.5f) * cell, u = 1.0f - r;
    exponential = u == 1.0f ? r : -FT_LOG(u) * (r / (1.0f - u));
  }
  return -FT_LOG(exponential);
}

// Each part's highest logit. grid (parts, rows), 256 threads.
kernel void draft_tops(const device float* x [[buffer(0)]], const device int* ids [[buffer(1)]],
                       const device DraftRowArgs* rows [[buffer(2)]], device float* tops [[buffer(3)]],
                       constant DraftArgs& a [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, scores, 8);
  FT_SHARED(float, tokens, 8);
  const device float* logits = x + group.y * a.columns;
  DraftBest own = no_draft();
  for (uint i = 0; i < kDraftShare; ++i) {
    const uint column = draft_column(group.x, i, simd * kLanes + lane);
    if (column >= a.columns) continue;
    const int token = a.labelled != 0 ? ids[column] : int(column);
    DraftBest other;
    other.score = draft_logit(logits[column], token, rows + group.y), other.token = float(token);
    own = better_draft(own, other);
  }
  own = best_of_group(own, scores, tokens, lane, simd);
  if (simd * kLanes + lane != 0) return;
  device float* out = tops + (group.y * a.parts + group.x) * 2;
  out[0] = own.score, out[1] = own.token;
}

// Each row's token from the best of its parts, and where steps find it by place. grid (1, rows), 256 threads.
kernel void draft_choice(const device float* parts [[buffer(0)]],
                         const device DraftRowArgs* rows [[buffer(1)]], device int* chosen [[buffer(2)]],
                         device int* round [[buffer(3)]], constant DraftArgs& a [[buffer(4)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, scores, 8);
  FT_SHARED(float, tokens, 8);
  const DraftBest best = best_of_parts(parts + group.y * a.parts * 2, a.parts, scores, tokens, lane, simd);
  if (simd * kLanes + lane != 0) return;
  chosen[group.y] = int(best.token);
  if (rows[group.y].store >= 0) round[rows[group.y].store] = int(best.token);
}
