// Elementwise operations, rows by place, and routes to experts.
#pragma once
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/kernels/language.h"

constant constexpr int kSwiglu = 0, kGeglu = 1, kAdd = 2, kGelu = 3, kGeluExact = 4, kScaled = 5, kBiased = 6,
                       kGated = 7, kSoftcap = 8, kCopy = 9;

template <int OP>
inline float combined(float x, float other, float factor) {
  if (OP == kSwiglu) return silu_of(x) * other;
  if (OP == kGeglu) return gelu_tanh_of(x) * other;
  if (OP == kAdd || OP == kBiased) return x + other;
  if (OP == kGelu) return gelu_tanh_of(x);
  if (OP == kGeluExact) return x * (1.0f + erf_of(x * 0.70710678118f)) * 0.5f;
  if (OP == kScaled) return x * factor;
  if (OP == kGated) return x * sigmoid_of(other);
  if (OP == kSoftcap) return factor * tanh_of(x / factor);
  return x;
}

// grid (width / 256, rows), 256 threads.
template <int OP>
kernel void combine(const device float* x [[buffer(0)]], const device float* other [[buffer(1)]],
                    device float* y [[buffer(2)]], constant CombineArgs& a [[buffer(3)]],
                    uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                    uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint column = group.x * 256 + simd * kLanes + lane, row = group.y;
  if (column >= a.width) return;
  float second = 0.0f;
  if (OP == kSwiglu || OP == kGeglu || OP == kAdd) second = other[row * a.other_stride + column];
  if (OP == kBiased) second = other[column];
  if (OP == kGated) second = other[row * a.other_stride];
  y[row * a.y_stride + column] = combined<OP>(x[row * a.x_stride + column], second, a.factor);
}

// y row r = x row places[r]; a place < 0 leaves y as it is. grid (width / 256, rows), 256 threads.
kernel void take_rows(const device float* x [[buffer(0)]], const device int* places [[buffer(1)]],
                      device float* y [[buffer(2)]], constant PlaceArgs& a [[buffer(3)]],
                      uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                      uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint column = group.x * 256 + simd * kLanes + lane;
  if (column >= a.width || places[group.y] < 0) return;
  y[group.y * a.y_stride + column] = x[uint(places[group.y]) * a.x_stride + column];
}

// y row places[r] = x row r; a place < 0: none. grid (width / 256, rows), 256 threads.
kernel void put_rows(const device float* x [[buffer(0)]], const device int* places [[buffer(1)]],
                     device float* y [[buffer(2)]], constant PlaceArgs& a [[buffer(3)]],
                     uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                     uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint column = group.x * 256 + simd * kLanes + lane;
  if (column >= a.width || places[group.y] < 0) return;
  y[uint(places[group.y]) * a.y_stride + column] = x[group.y * a.x_stride + column];
}

// Whether score a of expert i comes before score b of expert j; a score that is not a number comes last.
inline bool goes_first(float a, uint i, float b, uint j) {
  const bool a_is = a == a, b_is = b == b;
  if (a_is != b_is) return a_is;
  if (!a_is || a == b) return i < j;
  return a > b;
}

// y: chosen indices, chosen weights. Counts for each expert those before it. grid (1, rows), 32 threads.
kernel void route_rows(const device float* x [[buffer(0)]], const device float* scale [[buffer(1)]],
                       device float* y [[buffer(2)]], constant RouteArgs& a [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  const device float* scores = x + group.y * a.x_stride + simd;
  device float* out = y + group.y * a.y_stride;
  float sum = 0.0f, highest = scores[0];
  for (uint e = 1; e < a.experts; ++e) highest = goes_first(scores[e], e, highest, 0) ? scores[e] : highest;
  // In falling order, so that every lane has the same sum.
  float last = 0.0f;
  uint last_expert = 0;
  const uint counted = a.renormalised != 0 ? a.chosen : a.experts;
  for (uint place = 0; place < counted; ++place) {
    uint best = a.experts;
    for (uint e = 0; e < a.experts; ++e) {
      if (place > 0 && !goes_first(last, last_expert, scores[e], e)) continue;
      if (place > 0 && e == last_expert) continue;
      if (best == a.experts || goes_first(scores[e], e, scores[best], best)) best = e;
    }
    last = scores[best];
    last_expert = best;
    sum += FT_EXP(last - highest);
    if (place < a.chosen && lane == 0) out[place] = float(best);
  }
  for (uint place = lane; place < a.chosen; place += kLanes) {
    // Lane 0 wrote the indices: each lane finds its own again.
    uint expert = 0;
    for (uint e = 0; e < a.experts; ++e) {
      uint before = 0;
      for (uint other = 0; other < a.experts; ++other)
        before += other != e && goes_first(scores[other], other, scores[e], e) ? 1u : 0u;
      if (before == place) expert = e;
    }
    const float weight = FT_EXP(scores[expert] - highest) / sum;
    out[a.chosen + place] = a.scaled != 0 ? weight * scale[expert] : weight;
  }
}

// The sum over a row's experts in ascending order of index. x is [rows * chosen, width].
// grid (width / 256, rows), 256 threads.
kernel void sum_experts(const device float* x [[buffer(0)]], const device float* routes [[buffer(1)]],
                        device float* y [[buffer(2)]], constant ExpertsArgs& a [[buffer(3)]],
                        uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint column = group.x * 256 + simd * kLanes + lane;
  if (column >= a.width) return;
  const device float* route = routes + group.y * a.route_stride;
  float sum = 0.0f, last = -1.0f;
  for (uint step = 0; step < a.chosen; ++step) {
    uint next = a.chosen;
    for (uint j = 0; j < a.chosen; ++j)
      if (route[j] > last && (next == a.chosen || route[j] < route[next])) next = j;
    last = route[next];
    sum = fma(route[a.chosen + next], x[(group.y * a.chosen + next) * a.width + column], sum);
  }
  y[group.y * a.y_stride + column] = sum;
}
