// Norms of whole rows (a threadgroup a row) and of heads (a simdgroup a head). Sums are trees of fixed shape:
// a thread takes every 256th element, lanes meet by shuffles, simdgroups in order.
#pragma once
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/kernels/language.h"

// The sum over a threadgroup of 256 threads, the same in every thread.
inline float group_sum(float x, threadgroup float* shared, uint lane, uint simd) {
  const float sum = lanes_sum(x);
  if (lane == 0) shared[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = shared[0];
  for (uint i = 1; i < 8; ++i) total += shared[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return total;
}

// grid (1, rows), 256 threads.
kernel void rms_norm(const device float* x [[buffer(0)]], const device float* weight [[buffer(1)]],
                     device float* y [[buffer(2)]], constant NormArgs& a [[buffer(3)]],
                     uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                     uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, shared, 8);
  const device float* in = x + group.y * a.x_stride;
  float sum = 0.0f;
  for (uint i = simd * kLanes + lane; i < a.width; i += 256) sum = fma(in[i], in[i], sum);
  const float total = group_sum(sum, shared, lane, simd);
  const float scale = 1.0f / FT_SQRT(total / float(a.width) + a.eps);
  for (uint i = simd * kLanes + lane; i < a.width; i += 256)
    y[group.y * a.y_stride + i] = in[i] * scale * (a.weighted != 0 ? weight[i] : 1.0f);
}

// grid (1, rows), 256 threads.
kernel void layer_norm(const device float* x [[buffer(0)]], const device float* weight [[buffer(1)]],
                       const device float* bias [[buffer(2)]], device float* y [[buffer(3)]],
                       constant NormArgs& a [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, shared, 8);
  const device float* in = x + group.y * a.x_stride;
  float sum = 0.0f, squares = 0.0f;
  for (uint i = simd * kLanes + lane; i < a.width; i += 256) sum += in[i];
  const float mean = group_sum(sum, shared, lane, simd) / float(a.width);
  for (uint i = simd * kLanes + lane; i < a.width; i += 256)
    squares = fma(in[i] - mean, in[i] - mean, squares);
  const float variance = group_sum(squares, shared, lane, simd) / float(a.width);
  const float scale = 1.0f / FT_SQRT(variance + a.eps);
  for (uint i = simd * kLanes + lane; i < a.width; i += 256)
    y[group.y * a.y_stride + i] = fma((in[i] - mean) * scale, weight[i], bias[i]);
}

// grid (heads, rows), 32 threads; width: of a head.
kernel void gated_norm(const device float* x [[buffer(0)]], const device float* gate [[buffer(1)]],
                       const device float* weight [[buffer(2)]], device float* y [[buffer(3)]],
                       constant NormArgs& a [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint first = group.x * a.width + simd * kLanes;
  const device float* in = x + group.y * a.x_stride + first;
  float sum = 0.0f;
  for (uint i = lane; i < a.width; i += kLanes) sum = fma(in[i], in[i], sum);
  const float scale = 1.0f / FT_SQRT(lanes_sum(sum) / float(a.width) + a.eps);
  for (uint i = lane; i < a.width; i += kLanes) {
    const float open = silu_of(gate[group.y * a.gate_stride + first + i]);
    y[group.y * a.y_stride + first + i] = in[i] * scale * weight[i] * open;
  }
}
