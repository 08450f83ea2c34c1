#include "format/affine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "format/half.h"
#include "format/pack_words.h"
#include "format/widest.h"

namespace ft::format {
namespace {

constexpr float kSmallestScale = 1e-7F;

/// The NaN that MLX writes on x86 if a group has an infinity; this machine's own NaN may differ.
void store_nan(DType dtype, std::byte* at) {
  constexpr std::uint32_t kSingle = 0xFFC00000U;
  const std::uint16_t half = dtype == DType::kBF16 ? 0x7FC0 : 0xFD00;
  if (dtype == DType::kF32) {
    std::memcpy(at, &kSingle, sizeof kSingle);
  } else {
    std::memcpy(at, &half, sizeof half);
  }
}

void store_float(DType dtype, float value, std::byte* at) {
  if (std::isnan(value)) {
    store_nan(dtype, at);
    return;
  }
  if (dtype == DType::kF32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t half = dtype == DType::kBF16 ? float_to_bf16(value) : float_to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

struct GroupScale {
  float scale;
  float bias;
};

/// Integers in the order of the floats: comparing them needs no rule for NaN, so loops become vectors.
[[gnu::always_inline]] inline std::int32_t ordered(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
}
[[gnu::always_inline]] inline float from_ordered(std::int32_t key) {
  return std::bit_cast<float>(key < 0 ? key ^ 0x7FFFFFFF : key);
}

struct Range {
  float low, high;
};

/// The smallest and the largest number of a group; a NaN is neither.
Range range_with_nan(const float* group, int count) {
  Range range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  for (int i = 0; i < count; ++i) {
    range.low = std::min(range.low, group[i]);
    range.high = std::max(range.high, group[i]);
  }
  return range;
}

[[gnu::always_inline]] inline Range range_of(const float* group, int count) {
  std::int32_t low = INT32_MAX, high = INT32_MIN;
  for (int i = 0; i < count; ++i) {
    const std::int32_t key = ordered(group[i]);
    low = std::min(low, key), high = std::max(high, key);
  }
  constexpr std::int32_t kInfinity = 0x7F800000;
  if (high > kInfinity || low < ~kInfinity) return range_with_nan(group, count);
  return {from_ordered(low), from_ordered(high)};
}

/// The edge of larger magnitude and zero are represented exactly.
[[gnu::always_inline]] inline GroupScale choose_scale(const Range& range, float highest_code) {
  const bool from_low = std::fabs(range.low) > std::fabs(range.high);
  const float magnitude = std::max((range.high - range.low) / highest_code, kSmallestScale);
  const float scale = from_low ? magnitude : -magnitude;
  const float edge = from_low ? range.low : range.high;
  const float edge_code = std::rint(edge / scale);
  if (edge_code == 0) return {scale, 0};
  return {edge / edge_code, edge};
}

FT_WIDEST void codes_of(const float* values, std::int64_t groups, int bits, int group, DType scale_dtype,
                        std::uint32_t* words, std::byte* scales, std::byte* biases) {
  const std::size_t scale_bytes = dtype_bytes(scale_dtype);
  const auto highest_code = static_cast<float>((1 << bits) - 1);
  // Its unit is 1, so adding it rounds to a whole number, ties to even, which is in the lowest bits.
  constexpr float kUnits = 0x1p23F;
  std::uint32_t codes[kLargestGroup];
  for (std::int64_t g = 0; g < groups; ++g, values += group, scales += scale_bytes, biases += scale_bytes) {
    const GroupScale chosen = choose_scale(range_of(values, group), highest_code);
    store_float(scale_dtype, chosen.scale, scales);
    store_float(scale_dtype, chosen.bias, biases);
    for (int i = 0; i < group; ++i) {
      float code = (values[i] - chosen.bias) / chosen.scale;
      code = code > 0 ? code : 0.0F;  // NaN becomes 0
      code = code < highest_code ? code : highest_code;
      codes[i] = std::bit_cast<std::uint32_t>(code + kUnits) & 0xFFU;
    }
    words = pack_words(codes, bits, group, words);
  }
}

}  // namespace

void unpack_codes(const std::byte* row, int bits, std::int64_t cols, std::uint8_t* out) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row);
  const std::uint32_t mask = (1U << bits) - 1U;
  std::uint32_t pending = 0;  // bits not yet written, the oldest lowest; at most 7 + 8
  int held = 0;
  for (std::int64_t i = 0; i < cols; ++i) {
    if (held < bits) {
      pending |= static_cast<std::uint32_t>(*bytes++) << held;
      held += 8;
    }
    out[i] = static_cast<std::uint8_t>(pending & mask);
    pending >>= bits;
    held -= bits;
  }
}

namespace {

/// Packs the codes that come in eights, each eight into kBits bytes.
template <int kBits>
void pack_eights(const std::uint8_t* codes, std::int64_t eights, std::byte* row) {
  for (std::int64_t i = 0; i < eights; ++i) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, codes + 8 * i, sizeof eight);
    eight = (eight & 0x00FF00FF00FF00FFU) | (eight >> 8 & 0x00FF00FF00FF00FFU) << kBits;
    eight = (eight & 0x0000FFFF0000FFFFU) | (eight >> 16 & 0x0000FFFF0000FFFFU) << (2 * kBits);
    eight = (eight & 0xFFFFFFFFU) | eight >> 32 << (4 * kBits);
    std::memcpy(row + i * kBits, &eight, kBits);
  }
}

}  // namespace

void pack_codes(const std::uint8_t* codes, int bits, std::int64_t cols, std::byte* row) {
  using Pack = void (*)(const std::uint8_t*, std::int64_t, std::byte*);
  constexpr Pack kPacks[] = {pack_eights<1>, pack_eights<2>, pack_eights<3>, pack_eights<4>,
                             pack_eights<5>, pack_eights<6>, pack_eights<7>, pack_eights<8>};
  kPacks[bits - 1](codes, cols / 8, row);
  row += cols / 8 * bits;
  std::int64_t i = cols / 8 * 8;
  std::uint32_t pending = 0;  // bits not yet written, the oldest lowest; at most 7 + 8
  int held = 0;
  for (; i < cols; ++i) {
    pending |= static_cast<std::uint32_t>(codes[i]) << held;
    held += bits;
    for (; held >= 8; held -= 8, pending >>= 8) *row++ = static_cast<std::byte>(pending & 0xFFU);
  }
  FT_ASSERT(held == 0);
}

void dequantise_rows(const StoredMatrix& matrix, std::int64_t first, std::int64_t count, float* out) {
  FT_ASSERT(first >= 0 && count >= 0 && first + count <= matrix.rows);
  FT_ASSERT(matrix.mode == QuantMode::kAffine);
  const auto cols = static_cast<std::size_t>(matrix.cols);
  if (!matrix.quantised) {
    load_floats(matrix.data, matrix.dtype, static_cast<std::size_t>(first) * cols,
                static_cast<std::size_t>(count) * cols, out);
    return;
  }
  const auto group = static_cast<std::size_t>(matrix.group);
  const std::size_t groups = cols / group;
  const std::size_t row_bytes = cols * static_cast<std::size_t>(matrix.bits) / 8;
  std::vector<std::uint8_t> codes(cols);
  for (std::int64_t r = first; r < first + count; ++r) {
    const auto row = static_cast<std::size_t>(r);
    unpack_codes(matrix.data + row * row_bytes, matrix.bits, matrix.cols, codes.data());
    for (std::size_t g = 0; g < groups; ++g) {
      const float scale = load_float(matrix.scales, matrix.scale_dtype, row * groups + g);
      const float bias = load_float(matrix.biases, matrix.scale_dtype, row * groups + g);
      for (std::size_t i = g * group; i < (g + 1) * group; ++i)
        *out++ = static_cast<float>(codes[i]) * scale + bias;
    }
  }
}

void quantise_groups(const float* values, std::int64_t groups, int bits, int group, DType scale_dtype,
                     std::uint32_t* words, std::byte* scales, std::byte* biases) {
  FT_ASSERT(group % 32 == 0 && group <= kLargestGroup);
  codes_of(values, groups, bits, group, scale_dtype, words, scales, biases);
}

AffineMatrix quantise_affine(std::span<const float> values, std::int64_t rows, std::int64_t cols, int bits,
                             int group, DType scale_dtype) {
  FT_ASSERT(values.size() == static_cast<std::size_t>(rows * cols) && cols % group == 0);
  const auto groups = static_cast<std::size_t>(rows * (cols / group));
  AffineMatrix result{bits, group, rows, cols, scale_dtype, {}, {}, {}};
  result.words.resize(groups * static_cast<std::size_t>(group) * static_cast<std::size_t>(bits) / 32);
  result.scales.resize(groups * dtype_bytes(scale_dtype));
  result.biases.resize(groups * dtype_bytes(scale_dtype));
  quantise_groups(values.data(), static_cast<std::int64_t>(groups), bits, group, scale_dtype,
                  result.words.data(), result.scales.data(), result.biases.data());
  return result;
}

StoredMatrix stored(const AffineMatrix& matrix, std::string name) {
  return {std::move(name),
          DType::kU32,
          true,
          matrix.bits,
          matrix.group,
          matrix.rows,
          matrix.cols,
          reinterpret_cast<const std::byte*>(matrix.words.data()),
          matrix.scales.data(),
          matrix.biases.data(),
          matrix.scale_dtype};
}

}  // namespace ft::format
