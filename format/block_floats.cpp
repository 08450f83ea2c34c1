#include "format/block_floats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.h"
#include "format/half.h"
#include "format/small_float.h"

namespace ft::format {
namespace {

constexpr float kLargestE2m1 = 6.0F;
constexpr float kLargestE4m3 = 448.0F;
constexpr std::uint8_t kSaturated = 0x7E;  // e4m3 448
constexpr std::uint8_t kSign = 0x80;
// Above this, differences to the values of e2m1 round, and the first of equal differences counts.
constexpr float kDifferencesAreExact = 1024.0F;

float rounded_to(DType type, float value) {
  if (type == DType::kF32) return value;
  return type == DType::kBF16 ? bf16_to_float(float_to_bf16(value)) : f16_to_float(float_to_f16(value));
}

/// The smallest e with 2^e >= value; 0 for 0.
int exponent_above(float value) {
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  return fraction > 0.5F ? exponent : exponent - 1;
}

std::uint8_t nearest_of_all(float value) {
  float best = std::numeric_limits<float>::infinity();
  std::uint8_t code = 0;
  for (std::uint8_t i = 0; i < 16; ++i) {
    const float distance = std::fabs(value - e2m1_to_float(i));
    if (!(distance < best)) continue;
    best = distance, code = i;
  }
  return code;
}

/// The nearest e2m1, ties towards zero, zeros positive.
std::uint8_t nearest_e2m1(float value) {
  const float size = std::fabs(value);
  if (!(size < kDifferencesAreExact)) return nearest_of_all(value);
  const int code = int{size > 0.25F} + int{size > 0.75F} + int{size > 1.25F} + int{size > 1.75F} +
                   int{size > 2.5F} + int{size > 3.5F} + int{size > 5.0F};
  return static_cast<std::uint8_t>(value < 0 && code > 0 ? code | 8 : code);
}

struct BlockScale {
  std::uint8_t byte;
  float step;  // 0: nothing can be divided by it
};

BlockScale choose_scale(const float* group, int count, QuantMode mode, DType source) {
  float largest = 0;
  bool not_a_number = false;
  for (int i = 0; i < count; ++i) {
    const float size = std::fabs(group[i]);
    not_a_number = not_a_number || std::isnan(size);
    largest = std::max(largest, size);
  }
  if (not_a_number) largest = std::numeric_limits<float>::quiet_NaN();
  const float wanted =
      rounded_to(source, largest / (mode == QuantMode::kMxfp8 ? kLargestE4m3 : kLargestE2m1));
  if (mode == QuantMode::kNvfp4) {
    const std::uint8_t byte = float_to_e4m3(wanted);
    return {byte, e4m3_to_float(byte)};
  }
  if (!std::isfinite(wanted)) return {source == DType::kF32 ? kSign : std::uint8_t{0}, 0};
  const int exponent = exponent_above(wanted);
  // MLX keeps the low eight bits, so a group under 2^-127 wraps; its codes use the right exponent.
  return {static_cast<std::uint8_t>((exponent + 127) & 255), rounded_to(source, std::ldexp(1.0F, exponent))};
}

/// What 0 / 0 becomes: MLX's bf16 has a positive NaN, x86 makes a negative one.
std::uint8_t nan_code(DType source) { return source == DType::kBF16 ? kSaturated : kSaturated | kSign; }

std::uint8_t code_of(float value, float step, QuantMode mode, DType source) {
  if (mode == QuantMode::kNvfp4 && step == 0) return 0;
  const float ratio = rounded_to(source, value / step);
  if (mode != QuantMode::kMxfp8) return nearest_e2m1(ratio);
  return step == 0 && value == 0 ? nan_code(source) : float_to_e4m3(ratio);
}

}  // namespace

std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & kSign);
  const float size = std::fabs(value);
  if (!(size < kLargestE4m3)) return sign | kSaturated;  // NaN too
  // Subnormal: the addition moves the kept bits to the bottom of the fraction and rounds them to even.
  if (size < 0x1p-6F) return sign | static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(size + 0x1p14F));
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t rounded = magnitude - (120U << 23) + 0x7FFFFU + ((magnitude >> 20) & 1U);
  return sign | static_cast<std::uint8_t>(rounded >> 20);
}

void quantise_blocks(const float* values, std::int64_t groups, QuantMode mode, DType source,
                     std::uint32_t* words, std::byte* scales) {
  FT_ASSERT(mode != QuantMode::kAffine);
  const Quantisation q = usual_quantisation(mode);
  const int codes_a_word = 32 / q.bits;
  for (std::int64_t g = 0; g < groups; ++g, values += q.group) {
    const BlockScale scale = choose_scale(values, q.group, mode, source);
    *scales++ = std::byte{scale.byte};
    for (int first = 0; first < q.group; first += codes_a_word) {
      std::uint32_t word = 0;
      for (int i = 0; i < codes_a_word; ++i) {
        word |= static_cast<std::uint32_t>(code_of(values[first + i], scale.step, mode, source))
                << (i * q.bits);
      }
      *words++ = word;
    }
  }
}

void dequantise_block_rows(const StoredMatrix& matrix, std::int64_t first, std::int64_t count, float* out) {
  FT_ASSERT(matrix.quantised && matrix.mode != QuantMode::kAffine);
  const auto cols = static_cast<std::size_t>(matrix.cols), group = static_cast<std::size_t>(matrix.group);
  const std::size_t row_bytes = cols * static_cast<std::size_t>(matrix.bits) / 8;
  const auto* codes =
      reinterpret_cast<const std::uint8_t*>(matrix.data) + static_cast<std::size_t>(first) * row_bytes;
  const auto* scales =
      reinterpret_cast<const std::uint8_t*>(matrix.scales) + static_cast<std::size_t>(first) * (cols / group);
  for (std::size_t g = 0; g < static_cast<std::size_t>(count) * (cols / group); ++g) {
    const float scale =
        matrix.mode == QuantMode::kNvfp4 ? e4m3_to_float(scales[g]) : e8m0_to_float(scales[g]);
    for (std::size_t i = g * group; i < (g + 1) * group; ++i) {
      const float code = matrix.bits == 8
                             ? e4m3_to_float(codes[i])
                             : e2m1_to_float(static_cast<std::uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15));
      *out++ = code * scale;
    }
  }
}

}  // namespace ft::format
