#include "format/tensor.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/utf8.h"
#include "format/half.h"
#include "format/widest.h"

namespace ft::format {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeRow, 16> kDTypes = {{
    {DType::kF64, "F64", 8},
    {DType::kF32, "F32", 4},
    {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2},
    {DType::kI64, "I64", 8},
    {DType::kI32, "I32", 4},
    {DType::kI16, "I16", 2},
    {DType::kI8, "I8", 1},
    {DType::kU64, "U64", 8},
    {DType::kU32, "U32", 4},
    {DType::kU16, "U16", 2},
    {DType::kU8, "U8", 1},
    {DType::kBool, "BOOL", 1},
    {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kF8E5M2, "F8_E5M2", 1},
    {DType::kF8E8M0, "F8_E8M0", 1},
}};

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

constexpr std::size_t kShownNameBytes = 200;

FT_WIDEST void widen_bf16(const std::byte* data, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = bf16_to_float(load_u16(data + i * 2));
}

/// f16_to_float() without branches, so that the loop becomes vectors.
FT_WIDEST void widen_f16(const std::byte* data, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t half = load_u16(data + i * 2);
    const std::uint32_t size = half & 0x7FFFU;
    const std::uint32_t normal = (size << 13) + (112U << 23);
    const auto subnormal =
        std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(size)) * 0x1p-24F);
    const std::uint32_t finite = size < 0x400U ? subnormal : normal;
    const std::uint32_t bits = size < 0x7C00U ? finite : (size << 13) | 0x7F800000U;
    out[i] = std::bit_cast<float>(bits | (half & 0x8000U) << 16);
  }
}

}  // namespace

std::size_t dtype_bytes(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }

std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

bool dtype_is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

float load_float(const std::byte* data, DType dtype, std::size_t index) {
  float value = 0;
  load_floats(data, dtype, index, 1, &value);
  return value;
}

void load_floats(const std::byte* data, DType dtype, std::size_t first, std::size_t count, float* out) {
  FT_ASSERT(dtype_is_float(dtype));
  if (count == 0) return;
  if (dtype == DType::kF32) {
    std::memcpy(out, data + first * 4, count * 4);
  } else if (dtype == DType::kBF16) {
    widen_bf16(data + first * 2, count, out);
  } else {
    widen_f16(data + first * 2, count, out);
  }
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text(1, '[');
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  text += ']';
  return text;
}

std::string in_quotes(std::string_view name) {
  std::string text(1, '\'');
  text += utf8_replace_invalid(name.substr(0, kShownNameBytes));
  if (name.size() > kShownNameBytes) text += "...";
  text += '\'';
  return text;
}

Error tensor_error(Code code, std::string_view file, std::string_view name, std::string_view expected,
                   std::string_view found, std::string_view next) {
  std::string message(file);
  message.append(": tensor ").append(in_quotes(name)).append(": expected ").append(expected);
  message.append(", found ").append(found).append("; ").append(next);
  return Error{code, std::move(message)};
}

}  // namespace ft::format
