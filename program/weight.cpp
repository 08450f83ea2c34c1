#include "program/weight.h"

namespace ft {

int element_bytes(Format format) {
  switch (format) {
    case Format::kF32:
      return 4;
    case Format::kF16:
      return 2;
    case Format::kBf16:
      return 2;
    case Format::kAffine:
      return 0;
  }
  return 0;
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
  }
  return "unknown";
}

std::int64_t Weight::bytes() const {
  if (format != Format::kAffine) return rows * cols * element_bytes(format);
  const std::int64_t groups = cols / group;
  return rows * (cols * bits / 8 + 2 * groups * element_bytes(scale_format));
}

}  // namespace ft
