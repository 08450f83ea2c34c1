// The floats of 4 and 8 bits in block formats, widened exactly: e2m1 (OCP MX FP4), e4m3 (OCP FP8 E4M3FN) and
// the scale e8m0. No encoder writes the codes that the formats call NaN (e4m3 0x7F and 0xFF, e8m0 0xFF); they
// become +-480 and infinity, as in MLX's GPU kernels. Source: OCP Microscaling Formats 1.0; mlx
// `fp_quantize`.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace ft::format {

/// Sign, two bits of exponent, one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
constexpr float e2m1_to_float(std::uint8_t code) {
  constexpr std::array<float, 8> kMagnitudes = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

/// 1-4-3, bias 7, subnormal numbers in steps of 2^-9; the maximum is 448.
constexpr float e4m3_to_float(std::uint8_t code) {
  const unsigned exponent = (code >> 3) & 15U;
  const unsigned mantissa = code & 7U;
  const float magnitude = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9F
                                        : std::bit_cast<float>((exponent + 120U) << 23 | mantissa << 20);
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

/// 2^(code - 127).
constexpr float e8m0_to_float(std::uint8_t code) {
  return code == 0 ? 0x1p-127F : std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

}  // namespace ft::format
