// The part of Metal Shading Language that the kernels use. The same text is Metal on a Mac, C++ in the twin
// (backends/metal/twin/language.h), and for checks CUDA (backends/metal/on_cuda) and C++ with real address
// spaces (tools/metal_text.py).
// Rules, which tools/metal_text.py checks: every pointer and array parameter names its address space; a
// product that is added is an fma(); no double, no lambda, no static, no atomics, no simd_sum (its order is
// Metal's own): lanes meet in simd_shuffle_xor and threadgroup_barrier alone.
#pragma once
#ifdef __METAL_VERSION__
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#define FT_SHARED(type, name, size) threadgroup type name[size]
#define FT_EXP(x) precise::exp(x)
#define FT_LOG(x) precise::log(x)
#define FT_SQRT(x) precise::sqrt(x)
#elif defined(FT_CHECK)
#include "backends/metal/kernels/check_language.h"
#elif defined(__CUDACC_RTC__)
#include "backends/metal/on_cuda/language.h"
#else
#include "backends/metal/twin/language.h"
#endif

constant constexpr uint kLanes = 32;

// A tree of fixed shape: the same sum in every lane.
inline float lanes_sum(float x) {
  x += simd_shuffle_xor(x, 16);
  x += simd_shuffle_xor(x, 8);
  x += simd_shuffle_xor(x, 4);
  x += simd_shuffle_xor(x, 2);
  x += simd_shuffle_xor(x, 1);
  return x;
}

inline float sigmoid_of(float x) { return 1.0f / (1.0f + FT_EXP(-x)); }
inline float silu_of(float x) { return x / (1.0f + FT_EXP(-x)); }

inline float tanh_of(float x) {
  if (x > 15.0f) return 1.0f;
  if (x < -15.0f) return -1.0f;
  return 1.0f - 2.0f / (FT_EXP(2.0f * x) + 1.0f);
}

inline float gelu_tanh_of(float x) {
  const float u = 0.7978845608f * fma(0.044715f * x * x, x, x);
  return 0.5f * x * (1.0f + tanh_of(u));
}

// Abramowitz and Stegun 7.1.26, absolute error 1.5e-7; the sign is kept apart.
inline float erf_of(float x) {
  const float a = abs(x), t = 1.0f / fma(0.3275911f, a, 1.0f);
  float p = fma(1.061405429f, t, -1.453152027f);
  p = fma(p, t, 1.421413741f);
  p = fma(p, t, -0.284496736f);
  p = fma(p, t, 0.254829592f);
  const float y = fma(-(p * t), FT_EXP(-(a * a)), 1.0f);
  return x < 0.0f ? -y : y;
}

inline float softplus_of(float x) {
  const float e = FT_EXP(-abs(x)), u = 1.0f + e;
  const float above = max(x, 0.0f);
  return u == 1.0f ? above + e : fma(FT_LOG(u), e / (u - 1.0f), above);
}
