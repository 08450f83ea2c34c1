// A model of one sum of the matrix unit for float16 operands and float32 sums, as on sm_90: the addend and
// sixteen products, all aligned to the largest exponent and cut after 25 fraction bits, added exactly, and
// cut to float32. A subnormal half counts with the exponent of the smallest normal one. Found by measurement:
// Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", arXiv 2512.07004. Sums of sm_80 and sm_89
// are of eight products. Owner: tests. Thread: any.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace ft::cuda {

/// whole * 2^(exponent - 10)
struct HalfTerm {
  std::int32_t whole = 0, exponent = 0;
};

inline constexpr std::int32_t kNotFinite = 1 << 12;  // as an exponent

inline HalfTerm half_term(std::uint16_t half) {
  const std::int32_t field = half >> 10 & 31, fraction = half & 1023;
  if (field == 31) return {1, kNotFinite};
  const std::int32_t whole = field == 0 ? fraction : fraction | 1024;
  return {(half & 0x8000) != 0 ? -whole : whole, std::max(field, 1) - 15};
}

inline constexpr int kMatrixTerms = 16;

inline float matrix_sum(float addend, const HalfTerm* left, const HalfTerm* right) {
  constexpr int kFraction = 25, kOfProduct = 20, kOfFloat = 23, kNone = -1 << 20;
  const auto bits = std::bit_cast<std::uint32_t>(addend);
  const auto field = static_cast<int>(bits >> 23 & 255);
  if (field == 255) return std::numeric_limits<float>::quiet_NaN();
  std::int64_t own = (bits & 0x7fffff) | (field == 0 ? 0 : 0x800000);
  const int own_exponent = std::max(field, 1) - 127;
  std::int32_t products[kMatrixTerms], exponents[kMatrixTerms];
  int highest = own == 0 ? kNone : own_exponent;
  for (int k = 0; k < kMatrixTerms; ++k) {
    products[k] = left[k].whole * right[k].whole, exponents[k] = left[k].exponent + right[k].exponent;
    if (exponents[k] > kNotFinite / 2) return std::numeric_limits<float>::quiet_NaN();
    if (products[k] != 0) highest = std::max(highest, exponents[k]);
  }
  if (highest == kNone) return 0;
  const auto aligned = [](std::int64_t size, int shift) {  // to the left; cut
    return shift >= 0 ? size << shift : shift > -63 ? size >> -shift : 0;
  };
  std::int64_t sum = own == 0 ? 0 : aligned(own, kFraction - kOfFloat - (highest - own_exponent));
  if ((bits >> 31) != 0) sum = -sum;
  for (int k = 0; k < kMatrixTerms; ++k) {
    if (products[k] == 0) continue;
    const std::int64_t size =
        aligned(std::abs(products[k]), kFraction - kOfProduct - (highest - exponents[k]));
    sum += products[k] < 0 ? -size : size;
  }
  std::int64_t size = std::abs(sum);
  const int surplus = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))) - 24);
  size = size >> surplus << surplus;
  return std::ldexp(static_cast<float>(sum < 0 ? -size : size), highest - kFraction);
}

}  // namespace ft::cuda
