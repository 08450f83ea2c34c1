// An exponential and a logarithm of fused multiplications alone, so that a GPU and the host have the same
// bits. Metal and the twin have their own ones; the check of the kernels on CUDA uses these on both sides.
// exp: within 2 units in the last place, 0 below -87, exp(88) above 88. log: of numbers in [1, 2], the only
// ones that the kernels need.
#pragma once

inline float check_exp(float x) {
  if (!(x > -87.0f)) return 0.0f;
  const float safe = x < 88.0f ? x : 88.0f;
  const float shifted = fma(safe, 1.44269504f, 12582912.0f);  // 1.5 * 2^23: the integer in the low bits
  const float n = shifted - 12582912.0f;
  const float r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, safe));
  float sum = 1.98412698e-4f;
  sum = fma(sum, r, 1.38888889e-3f);
  sum = fma(sum, r, 8.33333333e-3f);
  sum = fma(sum, r, 4.16666667e-2f);
  sum = fma(sum, r, 1.66666667e-1f);
  sum = fma(sum, r, 0.5f);
  sum = fma(sum, r, 1.0f);
  sum = fma(sum, r, 1.0f);
  return sum * as_type<float>((as_type<uint>(shifted) + 127u) << 23);
}

// 2 artanh((x - 1) / (x + 1)).
inline float check_log(float x) {
  const float s = (x - 1.0f) / (x + 1.0f), square = s * s;
  float sum = 1.0f / 13.0f;
  sum = fma(sum, square, 1.0f / 11.0f);
  sum = fma(sum, square, 1.0f / 9.0f);
  sum = fma(sum, square, 1.0f / 7.0f);
  sum = fma(sum, square, 1.0f / 5.0f);
  sum = fma(sum, square, 1.0f / 3.0f);
  sum = fma(sum, square, 1.0f);
  return 2.0f * s * sum;
}

#ifndef FT_EXP
#define FT_EXP(x) check_exp(x)
#define FT_LOG(x) check_log(x)
#endif
