#include "program/weight.h"

#include <utility>

#include "program/row_source.h"

namespace ft {

int element_bytes(Format format) {
  switch (format) {
    case Format::kF32:
      return 4;
    case Format::kF16:
    case Format::kBf16:
      return 2;
    case Format::kE8m0:
    case Format::kE4m3:
      return 1;
    case Format::kAffine:
    case Format::kMxfp4:
    case Format::kMxfp8:
    case Format::kNvfp4:
      return 0;
  }
  return 0;
}

bool is_block_float(Format format) {
  return format == Format::kMxfp4 || format == Format::kMxfp8 || format == Format::kNvfp4;
}

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kF32:
      return "f32";
    case Format::kF16:
      return "f16";
    case Format::kBf16:
      return "bf16";
    case Format::kAffine:
      return "affine";
    case Format::kMxfp4:
      return "mxfp4";
    case Format::kMxfp8:
      return "mxfp8";
    case Format::kNvfp4:
      return "nvfp4";
    case Format::kE8m0:
      return "e8m0";
    case Format::kE4m3:
      return "e4m3";
  }
  return "unknown";
}

Weight rows_of(const Weight& weight, std::int64_t first, std::int64_t count, std::string name) {
  Weight part = weight;
  part.name = std::move(name);
  part.rows = count;
  if (weight.from != nullptr) {
    part.from_row += first;
    return part;
  }
  if (weight.empty()) return part;
  part.data += first * (weight.cols * weight.stored_bits() / 8);
  if (!weight.quantised()) return part;
  const std::int64_t scales = weight.cols / weight.group * element_bytes(weight.scale_format);
  part.scales += first * scales;
  if (part.biases != nullptr) part.biases += first * scales;
  return part;
}

bool stored_alike(const Weight& a, const Weight& b) {
  return a.format == b.format && a.bits == b.bits && a.group == b.group && a.scale_format == b.scale_format;
}

int Weight::stored_bits() const { return quantised() ? bits : 8 * element_bytes(format); }

bool Weight::quantised() const { return format == Format::kAffine || is_block_float(format); }

std::int64_t Weight::bytes() const {
  if (!quantised()) return rows * cols * element_bytes(format);
  const std::int64_t per_group = format == Format::kAffine ? 2 : 1;  // a scale, and a bias
  return rows * (cols * bits / 8 + per_group * (cols / group) * element_bytes(scale_format));
}

std::int64_t least_bytes(const Weight& weight) {
  const ScaleFactors factors = weight.from == nullptr ? ScaleFactors{} : weight.from->factors();
  if (factors.columns == 0) return weight.bytes();
  const std::int64_t kinds = factors.zero != 0 ? 1 : 2;  // scales, biases
  const std::int64_t scales = kinds * (2 * (weight.cols / factors.columns) + weight.cols / weight.group);
  return weight.rows * (weight.cols * weight.bits / 8 + scales);
}

}  // namespace ft
