#include "backends/weight_rows.h"

#include <bit>
#include <cstring>

#include "base/assert.h"

namespace ft {
namespace {

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float f16_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 31U;
  const std::uint32_t mantissa = half & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal: exact in float32
  return sign != 0 ? -magnitude : magnitude;
}

void read_plain(Format format, const std::byte* from, std::int64_t count, float* out) {
  if (format == Format::kF32) {
    std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);  // mapped tensors may stand at odd addresses
    out[i] = format == Format::kBf16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
}

void read_affine(const Weight& weight, std::int64_t row, float* out) {
  constexpr std::int64_t kChunk = 128;  // columns unpacked at a time; a multiple of every group
  const std::int64_t groups = weight.cols / weight.group;
  const std::int64_t step = element_bytes(weight.scale_format);
  std::uint8_t codes[kChunk];
  for (std::int64_t g = 0; g < groups; ++g) {
    float scale = 0;
    float bias = 0;
    read_plain(weight.scale_format, weight.scales + (row * groups + g) * step, 1, &scale);
    read_plain(weight.scale_format, weight.biases + (row * groups + g) * step, 1, &bias);
    const std::byte* from = weight.data + (row * weight.cols + g * weight.group) * weight.bits / 8;
    unpack_codes(from, weight.bits, weight.group, codes);
    for (int i = 0; i < weight.group; ++i) {
      out[g * weight.group + i] = static_cast<float>(codes[i]) * scale + bias;
    }
  }
}

}  // namespace

void unpack_codes(const std::byte* from, int bits, std::int64_t count, std::uint8_t* out) {
  const std::uint32_t mask = (1U << bits) - 1U;
  std::uint64_t pending = 0;
  int filled = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (filled < bits) {
      pending |= static_cast<std::uint64_t>(*from++) << filled;
      filled += 8;
    }
    out[i] = static_cast<std::uint8_t>(pending & mask);
    pending >>= bits;
    filled -= bits;
  }
}

void read_rows(const Weight& weight, std::int64_t first, std::int64_t rows, float* out) {
  FT_ASSERT(first >= 0 && first + rows <= weight.rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* line = out + r * weight.cols;
    if (weight.format == Format::kAffine) {
      FT_ASSERT(weight.group <= 128);
      read_affine(weight, first + r, line);
    } else {
      read_plain(weight.format, weight.data + (first + r) * weight.cols * element_bytes(weight.format),
                 weight.cols, line);
    }
    if (weight.offset == 0) continue;
    for (std::int64_t i = 0; i < weight.cols; ++i) line[i] += weight.offset;
  }
}

void read_codes(const Weight& weight, std::int64_t row, std::uint8_t* out) {
  FT_ASSERT(weight.format == Format::kAffine);
  unpack_codes(weight.data + row * weight.cols * weight.bits / 8, weight.bits, weight.cols, out);
}

void read_scales(const Weight& weight, std::int64_t row, float* scales, float* biases) {
  const std::int64_t groups = weight.cols / weight.group;
  const std::int64_t first = row * groups * element_bytes(weight.scale_format);
  read_plain(weight.scale_format, weight.scales + first, groups, scales);
  read_plain(weight.scale_format, weight.biases + first, groups, biases);
}

}  // namespace ft
