#include "format/block_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/assert.h"
#include "format/half.h"
#include "format/pack_words.h"
#include "format/small_float.h"
#include "format/widest.h"

namespace ft::format {
namespace {

constexpr float kLargestE2m1 = 6.0F;
constexpr float kLargestE4m3 = 448.0F;
constexpr std::uint8_t kSaturated = 0x7E;  // e4m3 448
constexpr std::uint8_t kSign = 0x80;
constexpr std::int32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;  // of the bits of a float
constexpr std::int32_t kMinF16 = 0x38800000;  // 2^-14, below which float16 is subnormal
// Above this, differences to the values of e2m1 round, and the first of equal differences counts.
constexpr float kDifferencesAreExact = 1024.0F;

// Functions for one group are inlined into the vector loop: a call would mix the instructions of two widths.
[[gnu::always_inline]] inline float rounded_to(DType type, float value) {
  if (type == DType::kF32) return value;
  return type == DType::kBF16 ? bf16_to_float(float_to_bf16(value)) : f16_to_float(float_to_f16(value));
}

/// The smallest e with 2^e >= value; 0 for 0.
[[gnu::always_inline]] inline int exponent_above(float value) {
  if (value >= std::numeric_limits<float>::min()) {
    const auto bits = std::bit_cast<std::int32_t>(value);
    return (bits >> 23) - 127 + int{(bits & 0x7FFFFF) != 0};
  }
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

/// float_to_e4m3()
[[gnu::always_inline]] inline std::uint8_t to_e4m3(float value) {
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

struct BlockScale {
  std::uint8_t byte;
  float step;     // 0: nothing can be divided by it
  float largest;  // magnitude of the group, or NaN
};

/// NaN if there is one.
[[gnu::always_inline]] inline float largest_of(const float* group, int count) {
  std::int32_t largest = 0;  // magnitudes are in the order of their bits, and NaN is above infinity
  for (int i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<std::int32_t>(group[i]) & kMagnitude);
  return largest > kInfinity ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(largest);
}

[[gnu::always_inline]] inline BlockScale choose_block_scale(float largest, QuantMode mode, DType source) {
  const float wanted =
      rounded_to(source, largest / (mode == QuantMode::kMxfp8 ? kLargestE4m3 : kLargestE2m1));
  if (mode == QuantMode::kNvfp4) {
    const std::uint8_t byte = to_e4m3(wanted);
    return {byte, e4m3_to_float(byte), largest};
  }
  if (!std::isfinite(wanted)) return {source == DType::kF32 ? kSign : std::uint8_t{0}, 0, largest};
  const int exponent = exponent_above(wanted);
  // MLX keeps the low eight bits, so a group under 2^-127 wraps; its codes use the right exponent.
  const bool normal = exponent >= -126 && exponent <= 127;
  const float step = normal ? std::bit_cast<float>((exponent + 127) << 23) : std::ldexp(1.0F, exponent);
  return {static_cast<std::uint8_t>((exponent + 127) & 255), rounded_to(source, step), largest};
}

/// The result of 0 / 0: MLX's bf16 has a positive NaN, x86 makes a negative one.
std::uint8_t nan_code(DType source) { return source == DType::kBF16 ? kSaturated : kSaturated | kSign; }

std::uint8_t code_of(float value, float step, QuantMode mode, DType source) {
  if (mode == QuantMode::kNvfp4 && step == 0) return 0;
  const float ratio = rounded_to(source, value / step);
  if (mode != QuantMode::kMxfp8) return nearest_e2m1(ratio);
  return step == 0 && value == 0 ? nan_code(source) : to_e4m3(ratio);
}

// The same for the groups of real models, in loops that the compiler vectorises: finite values, and a step
// that brings every value below kDifferencesAreExact.
bool is_usual(const BlockScale& scale) {
  return scale.step > 0 && scale.largest < kDifferencesAreExact * scale.step;
}

struct KeepF32 {
  [[gnu::always_inline]] std::int32_t operator()(float size) const {
    return std::bit_cast<std::int32_t>(size);
  }
};

struct RoundToBf16 {
  [[gnu::always_inline]] std::int32_t operator()(float size) const {
    const auto bits = std::bit_cast<std::int32_t>(size);
    return (bits + 0x7FFF + ((bits >> 16) & 1)) & ~0xFFFF;
  }
};

struct RoundToF16 {
  [[gnu::always_inline]] std::int32_t operator()(float size) const {
    const auto bits = std::bit_cast<std::int32_t>(size);
    const std::int32_t usual = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF;
    const auto subnormal = std::bit_cast<std::int32_t>((size + 0.5F) - 0.5F);  // the unit of 0.5 is 2^-24
    return bits < kMinF16 ? subnormal : usual;
  }
};

/// e2m1 of a magnitude by its bits: ties go towards zero. Written out: an inner loop would stay scalar.
[[gnu::always_inline]] inline std::int32_t e2m1_of(std::int32_t size) {
  constexpr auto kBits = [](float tie) { return std::bit_cast<std::int32_t>(tie); };
  return int{size > kBits(0.25F)} + int{size > kBits(0.75F)} + int{size > kBits(1.25F)} +
         int{size > kBits(1.75F)} + int{size > kBits(2.5F)} + int{size > kBits(3.5F)} +
         int{size > kBits(5.0F)};
}

/// e4m3 of a magnitude by its bits, as float_to_e4m3().
[[gnu::always_inline]] inline std::int32_t e4m3_of(std::int32_t size) {
  constexpr std::int32_t kTop = 0x43E00000, kMinNormal = 0x3C800000;  // 448, 2^-6
  const auto subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(size) + 0x1p14F) & 0xFF;
  const std::int32_t usual = (size - (120 << 23) + 0x7FFFF + ((size >> 20) & 1)) >> 20;
  const std::int32_t small = size < kMinNormal ? subnormal : usual;
  return size < kTop ? small : std::int32_t{kSaturated};
}

template <class Round>
[[gnu::always_inline]] inline void usual_codes(const float* values, int count, float step, bool wide,
                                               Round round, std::uint32_t* codes) {
  for (int i = 0; i < count; ++i) {
    const float ratio = values[i] / step;
    const auto sign = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(ratio) >> 31);
    const std::int32_t size = round(std::bit_cast<float>(std::bit_cast<std::int32_t>(ratio) & kMagnitude));
    const std::int32_t narrow = e2m1_of(size);
    const std::int32_t code = wide ? e4m3_of(size) | sign << 7 : narrow | (narrow > 0 ? sign << 3 : 0);
    codes[i] = static_cast<std::uint32_t>(code);
  }
}

template <QuantMode kMode, class Round>
[[gnu::always_inline]] inline void encode_groups(const float* values, std::int64_t groups, DType source,
                                                 std::uint32_t* words, std::byte* scales) {
  const Quantisation q = usual_quantisation(kMode);  // a constant here would unroll the loops into scalars
  std::uint32_t codes[kLargestGroup];
  for (std::int64_t g = 0; g < groups; ++g, values += q.group) {
    const BlockScale scale = choose_block_scale(largest_of(values, q.group), kMode, source);
    *scales++ = std::byte{scale.byte};
    if (is_usual(scale)) {
      usual_codes(values, q.group, scale.step, kMode == QuantMode::kMxfp8, Round(), codes);
    } else {
      for (int i = 0; i < q.group; ++i) codes[i] = code_of(values[i], scale.step, kMode, source);
    }
    words = pack_words(codes, q.bits, q.group, words);
  }
}

template <class Round>
[[gnu::always_inline]] inline void encode_by_mode(const float* values, std::int64_t groups, QuantMode mode,
                                                  DType source, std::uint32_t* words, std::byte* scales) {
  if (mode == QuantMode::kMxfp8) {
    encode_groups<QuantMode::kMxfp8, Round>(values, groups, source, words, scales);
  } else if (mode == QuantMode::kMxfp4) {
    encode_groups<QuantMode::kMxfp4, Round>(values, groups, source, words, scales);
  } else {
    encode_groups<QuantMode::kNvfp4, Round>(values, groups, source, words, scales);
  }
}

FT_WIDEST void encode(const float* values, std::int64_t groups, QuantMode mode, DType source,
                      std::uint32_t* words, std::byte* scales) {
  if (source == DType::kF32) {
    encode_by_mode<KeepF32>(values, groups, mode, source, words, scales);
  } else if (source == DType::kBF16) {
    encode_by_mode<RoundToBf16>(values, groups, mode, source, words, scales);
  } else {
    encode_by_mode<RoundToF16>(values, groups, mode, source, words, scales);
  }
}

}  // namespace

std::uint8_t float_to_e4m3(float value) { return to_e4m3(value); }

void quantise_blocks(const float* values, std::int64_t groups, QuantMode mode, DType source,
                     std::uint32_t* words, std::byte* scales) {
  FT_ASSERT(mode != QuantMode::kAffine);
  encode(values, groups, mode, source, words, scales);
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
