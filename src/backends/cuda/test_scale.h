// For tests: one stored scale or bias of a weight as a float.
#pragma once

#include <cstring>

#include "format/half.h"
#include "program/weight.h"

namespace ft {

/// The scale, or bias, at `index` of `from`, in the weight's scale_format: kF16, kBf16 or kF32.
inline float stored_scale(const Weight& weight, const std::byte* from, std::int64_t index) {
  const std::byte* const at = from + element_bytes(weight.scale_format) * index;
  if (weight.scale_format == Format::kF16) return format::f16_to_float(format::load_u16(at));
  if (weight.scale_format == Format::kBf16) return format::bf16_to_float(format::load_u16(at));
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace ft
