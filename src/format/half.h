// bfloat16 and IEEE half to and from float. Widening is exact for every bit pattern (NaN payloads included).
// Narrowing rounds to nearest, ties to even, overflows to infinity and keeps NaN a NaN. Loads take any
// address, because MLX files do not align their data.
// Source: IEEE 754-2019 binary16; bfloat16 is the upper half of binary32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ft::format {

constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U)
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // NaN: quiet
  const std::uint32_t lowest_kept = (bits >> 16) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + lowest_kept) >> 16);
}

constexpr float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
  // Subnormal or zero: fraction * 2^-24 is exact in float.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

constexpr std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U)
    return static_cast<std::uint16_t>(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
  if (magnitude >= 0x477FF000U)
    return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65520 rounds to infinity
  if (magnitude < 0x38800000U) {                        // below 2^-14: subnormal
    // Adding 0.5 moves the kept bits to the bottom of the fraction; the float addition rounds them to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

inline std::uint16_t load_u16(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

inline float load_f32(const std::byte* at) {
  float value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace ft::format
