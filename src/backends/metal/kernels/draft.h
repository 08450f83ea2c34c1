// The tokens of draft rows: the highest logit, or a draw of the distribution after temperature, top-k, top-p
// and min-p. The noise is the host's (sampling/philox.h), its logarithms in float: a draft need only
// agree with the target's choice nearly always. Every choice is a maximum, ties go to the lower token, so no
// order of threads can change one. A part is kDraftColumns columns; more logits than that are parts side by
// side, which the last kernel brings together. Nothing here is used for a token that is emitted.
#pragma once
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/kernels/language.h"
#include "backends/metal/kernels/norm.h"

constant constexpr uint kDraftColumns = 4096, kDraftShare = kDraftColumns / 256;
constant constexpr float kNoToken = 16777216.0f;  // above every token: they are whole numbers in float
constant constexpr float kMaxNoise = 23.0f;       // -log(-log(1 - 2^-33)) is 22.9

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

// -log(-log(u)), u = (upper + 0.5) / 2^32. Near one, -log(u) is -log(1 - r) with a small r, which is exact.
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

// Floats in their order as whole numbers; 0: never drawn.
inline uint draft_key(float value) {
  if (!(value > -INFINITY)) return 0u;
  const uint bits = as_type<uint>(value);
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

inline float value_of_key(uint key) {
  if (key == 0u) return -INFINITY;
  return as_type<float>((key & 0x80000000u) != 0u ? key & 0x7fffffffu : ~key);
}

// How many of a part's logits top-k of this row may need.
inline uint draft_wanted(const device DraftRowArgs* row) {
  return row->temperature > 0.0f && row->top_k > 0 ? uint(row->top_k) : 0u;
}

// The top-k logits of each part, in no order; -INFINITY fills up a.kept of them. The least of them is found
// bit by bit: the largest key that at least k logits reach. grid (parts, rows), 256 threads.
kernel void draft_keep(const device float* x [[buffer(0)]], const device int* ids [[buffer(1)]],
                       const device DraftRowArgs* rows [[buffer(2)]], device float* list [[buffer(3)]],
                       constant DraftArgs& a [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, shared, 8);
  FT_SHARED(uint, counts, 256);
  const uint own = simd * kLanes + lane, wanted = draft_wanted(rows + group.y);
  if (wanted == 0) return;
  const device float* logits = x + group.y * a.columns;
  uint keys[kDraftShare];
  for (uint i = 0; i < kDraftShare; ++i) {
    const uint column = draft_column(group.x, i, own);
    keys[i] = 0;
    if (column >= a.columns) continue;
    const int token = a.labelled != 0 ? ids[column] : int(column);
    keys[i] = draft_key(draft_logit(logits[column], token, rows + group.y));
  }
  uint least = 0;
  for (uint bit = 0x80000000u; bit != 0u; bit /= 2u) {
    uint reach = 0;
    for (uint i = 0; i < kDraftShare; ++i) reach += keys[i] >= (least | bit) ? 1u : 0u;
    if (group_sum(float(reach), shared, lane, simd) >= float(wanted)) least |= bit;
  }
  // Fewer than `wanted` are above it; equal ones are interchangeable.
  uint above = 0;
  for (uint i = 0; i < kDraftShare; ++i) above += keys[i] > least ? 1u : 0u;
  counts[own] = above;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint place = 0, count = 0;
  for (uint i = 0; i < 256; ++i) {
    place += i < own ? counts[i] : 0u;
    count += counts[i];
  }
  device float* out = list + (group.y * a.parts + group.x) * a.kept;
  for (uint i = 0; i < kDraftShare; ++i) {
    if (keys[i] > least) out[place++] = value_of_key(keys[i]);
  }
  for (uint i = count + own; i < a.kept; i += 256) out[i] = i < wanted ? value_of_key(least) : -INFINITY;
}

// The lowest logit of each row that its filters leave. Top-p keeps the largest logit whose own share of the
// mass and those above it reach top_p. grid (1, rows), 256 threads.
kernel void draft_limit(const device float* list [[buffer(0)]], const device float* tops [[buffer(1)]],
                        const device DraftRowArgs* rows [[buffer(2)]], device float* limits [[buffer(3)]],
                        constant DraftArgs& a [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, scores, 8);
  FT_SHARED(float, tokens, 8);
  const device DraftRowArgs* row = rows + group.y;
  const float highest =
      best_of_parts(tops + group.y * a.parts * 2, a.parts, scores, tokens, lane, simd).score;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint own = simd * kLanes + lane, wanted = draft_wanted(row),
             length = wanted == 0 ? 0u : a.parts * a.kept;
  const device float* values = list + group.y * a.parts * a.kept;
  uint least = 0;
  for (uint bit = 0x80000000u; bit != 0u && wanted > 0; bit /= 2u) {
    uint reach = 0;
    for (uint i = own; i < length; i += 256) reach += draft_key(values[i]) >= (least | bit) ? 1u : 0u;
    if (group_sum(float(reach), scores, lane, simd) >= float(wanted)) least |= bit;
  }
  if (wanted > 0 && row->top_p < 1.0f && highest > -INFINITY) {
    float need = 0.0f;
    uint reached = least;
    for (uint bit = 0; bit <= 32u; ++bit) {  // first the whole mass
      const uint key = bit == 0 ? least : reached | 0x80000000u >> (bit - 1u);
      float mass = 0.0f;
      for (uint i = own; i < length; i += 256) {
        if (draft_key(values[i]) >= key && values[i] > -INFINITY)
          mass += FT_EXP((values[i] - highest) / row->temperature);
      }
      const float reach = group_sum(mass, scores, lane, simd);
      if (bit == 0) {
        need = reach * row->top_p;
        reached = 0u;
      } else if (reach >= need) {
        reached = key;
      }
    }
    least = reached > least ? reached : least;
  }
  if (own != 0) return;
  float limit = value_of_key(least);
  if (row->temperature > 0.0f && row->min_p > 0.0f && highest > -INFINITY)
    limit = max(limit, fma(row->temperature, FT_LOG(row->min_p < 1.0f ? row->min_p : 1.0f), highest));
  limits[group.y] = limit;
}

// Each part's best logit with noise; a row at temperature 0 keeps its highest. a.limited 0: no row has a
// filter. grid (parts, rows), 256 threads.
kernel void draft_scores(const device float* x [[buffer(0)]], const device int* ids [[buffer(1)]],
                         const device DraftRowArgs* rows [[buffer(2)]],
                         const device float* tops [[buffer(3)]], const device float* limits [[buffer(4)]],
                         device float* best [[buffer(5)]], constant DraftArgs& a [[buffer(6)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, scores, 8);
  FT_SHARED(float, tokens, 8);
  const uint thread_of_group = simd * kLanes + lane, place = (group.y * a.parts + group.x) * 2;
  const device DraftRowArgs* row = rows + group.y;
  const float highest =
      best_of_parts(tops + group.y * a.parts * 2, a.parts, scores, tokens, lane, simd).score;
  DraftBest own = no_draft();
  if (row->temperature > 0.0f && highest > -INFINITY) {
    const device float* logits = x + group.y * a.columns;
    const float limit = a.limited != 0 ? limits[group.y] : -INFINITY;
    uint known = 0u;
    DraftWords words = draft_words(0u, row);
    for (uint i = 0; i < kDraftShare; ++i) {
      const uint column = draft_column(group.x, i, thread_of_group);
      if (column >= a.columns) continue;
      const int token = a.labelled != 0 ? ids[column] : int(column);
      const float value = draft_logit(logits[column], token, row);
      if (!(value > -INFINITY) || value < limit) continue;
      const float tempered = (value - highest) / row->temperature;
      if (own.score - tempered > kMaxNoise) continue;
      if (uint(token) / 4u != known) {
        known = uint(token) / 4u;
        words = draft_words(known, row);
      }
      const uint word = uint(token) % 4u;
      DraftBest other;
      other.score = tempered + draft_noise(word == 0u   ? words.a
                                           : word == 1u ? words.b
                                           : word == 2u ? words.c
                                                        : words.d);
      other.token = float(token);
      own = better_draft(own, other);
    }
    own = best_of_group(own, scores, tokens, lane, simd);
  } else {
    own.score = tops[place], own.token = tops[place + 1];
  }
  if (thread_of_group == 0) best[place] = own.score, best[place + 1] = own.token;
}
