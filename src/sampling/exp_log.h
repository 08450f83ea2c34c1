// Natural exponential and logarithm with the same bits on every machine: only IEEE double additions,
// multiplications and divisions in a fixed order, no fused operations (the build forbids contraction) and no
// libm. backends/cuda/kernels/device.cuh evaluates the same expressions and gets the same bits. The error is
// within 2 units in the last place. Cost: about 15 multiplications each, no table, and no branch in exp's
// path. Source: the reductions and the logarithm's coefficients are from fdlibm (Sun Microsystems,
// e_exp.c, e_log.c); the exponential is its Taylor series to degree 13.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace ft {

inline constexpr double kLn2High = 6.93147180369123816490e-01;  // the upper 33 bits of ln 2
inline constexpr double kLn2Low = 1.90821492927058770002e-10;

/// exp(x) for x <= 0. Below -700 and for NaN it is exp(-700), about 1e-304: smaller than any probability that
/// matters.
inline double exp_of_negative(double x) {
  constexpr double kInverseLn2 = 1.44269504088896338700e+00;
  constexpr double kRound =
      6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits
  constexpr double kTaylor[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1.0,         1.0};
  const double safe = x > -700.0 ? x : -700.0;
  const double shifted = safe * kInverseLn2 + kRound;
  const double n = shifted - kRound;
  const double r = (safe - n * kLn2High) - n * kLn2Low;
  double sum = kTaylor[0];
  for (int i = 1; i < 14; ++i) sum = sum * r + kTaylor[i];
  const std::uint64_t scale = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  return sum * std::bit_cast<double>(scale);
}

/// log(x) for finite normal x > 0; 0 gives -infinity.
inline double log_of_positive(double x) {
  if (!(x > 0)) return -std::numeric_limits<double>::infinity();
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even =
      w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860510658591e-01)));
  const double half = 0.5 * f * f;
  const double n = exponent;
  return n * kLn2High - ((half - (s * (half + (even + odd)) + n * kLn2Low)) - f);
}

}  // namespace ft
