#include "backends/weight_rows.h"

#include <bit>
#include <cstring>

#include "base/assert.h"
#include "format/affine.h"
#include "format/half.h"
#include "format/small_float.h"
#include "program/row_source.h"

namespace ft {
namespace {

using format::bf16_to_float;
using format::e2m1_to_float;
using format::e4m3_to_float;
using format::e8m0_to_float;
using format::f16_to_float;

void read_plain(Format format, const std::byte* from, std::int64_t count, float* out) {
  if (format == Format::kF32) {
    std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  if (format == Format::kE8m0 || format == Format::kE4m3) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto code = static_cast<std::uint8_t>(from[i]);
      out[i] = format == Format::kE8m0 ? e8m0_to_float(code) : e4m3_to_float(code);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);  // mapped tensors may be at odd addresses
    out[i] = format == Format::kBf16 ? bf16_to_float(bits) : f16_to_float(bits);
  }
}

void read_quantised(const Weight& weight, std::int64_t row, float* out) {
  constexpr std::int64_t kChunk = 128;  // columns unpacked at a time; a multiple of every group
  const std::int64_t groups = weight.cols / weight.group;
  const std::int64_t step = element_bytes(weight.scale_format);
  std::uint8_t codes[kChunk];
  for (std::int64_t g = 0; g < groups; ++g) {
    float scale = 0;
    float bias = 0;
    read_plain(weight.scale_format, weight.scales + (row * groups + g) * step, 1, &scale);
    if (weight.format == Format::kAffine)
      read_plain(weight.scale_format, weight.biases + (row * groups + g) * step, 1, &bias);
    const std::byte* from = weight.data + (row * weight.cols + g * weight.group) * weight.bits / 8;
    format::unpack_codes(from, weight.bits, weight.group, codes);
    for (int i = 0; i < weight.group; ++i) {
      const float code = weight.format == Format::kAffine  ? static_cast<float>(codes[i])
                         : weight.format == Format::kMxfp8 ? e4m3_to_float(codes[i])
                                                           : e2m1_to_float(codes[i]);
      out[g * weight.group + i] = code * scale + bias;
    }
  }
}

}  // namespace

void read_rows(const Weight& weight, std::int64_t first, std::int64_t rows, float* out) {
  FT_ASSERT(first >= 0 && first + rows <= weight.rows);
  if (weight.from != nullptr) {
    weight.from->read(weight.from_row + first, rows, out);
    for (std::int64_t i = 0; weight.offset != 0 && i < rows * weight.cols; ++i) out[i] += weight.offset;
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    float* line = out + r * weight.cols;
    if (weight.quantised()) {
      FT_ASSERT(weight.group <= 128);
      read_quantised(weight, first + r, line);
    } else {
      read_plain(weight.format, weight.data + (first + r) * weight.cols * element_bytes(weight.format),
                 weight.cols, line);
    }
    if (weight.offset == 0) continue;
    for (std::int64_t i = 0; i < weight.cols; ++i) line[i] += weight.offset;
  }
}

}  // namespace ft
