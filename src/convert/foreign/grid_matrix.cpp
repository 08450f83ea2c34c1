#include "convert/foreign/grid_matrix.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "format/half.h"

namespace ft::convert {
namespace {

using format::DType;

std::uint32_t load_word(const std::byte* words, std::int64_t index) {
  std::uint32_t word;
  std::memcpy(&word, words + index * std::int64_t{sizeof word}, sizeof word);
  return word;
}

void store(float value, DType type, std::byte* at) {
  if (type == DType::kF32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t half =
      type == DType::kBF16 ? format::float_to_bf16(value) : format::float_to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

/// The largest group of MLX that divides both the source's group and the columns; 0: none.
int mlx_group(std::int64_t group, std::int64_t cols) {
  for (const int fit : {128, 64, 32}) {
    if (group % fit == 0 && cols % fit == 0) return fit;
  }
  return 0;
}

class GridMatrix final : public format::MatrixSource {
 public:
  explicit GridMatrix(GridLayout layout)
      : format::MatrixSource(layout.rows, layout.cols, layout.scale_type),
        layout_(std::move(layout)),
        group_(mlx_group(layout_.group, layout_.cols)),
        even_(zeros_are_the_middle()) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(cols()));
    for (std::int64_t row = first; row < first + count; ++row) {
      layout_.unpack_row(row, codes.data());
      for (std::int64_t col = 0; col < cols(); ++col) {
        const std::int64_t group = layout_.group_of_column.empty()
                                       ? col / layout_.group
                                       : layout_.group_of_column[static_cast<std::size_t>(col)];
        const int offset = int{codes[static_cast<std::size_t>(col)]} - static_cast<int>(zero(row, group));
        *out++ = static_cast<float>(offset) * layout_.scale(row, group);
      }
    }
  }

  std::optional<format::CodeFormat> codes() const override {
    if (group_ == 0 || !layout_.group_of_column.empty() || !format::is_affine_width(layout_.bits)) return {};
    const bool wide = layout_.float32_scales && !even_;
    return format::CodeFormat{{format::QuantMode::kAffine, layout_.bits, group_},
                              wide ? DType::kF32 : layout_.scale_type,
                              even_ || wide || layout_.scale_type == DType::kF32};
  }

  void read_codes(std::int64_t first, std::int64_t count, const format::CodeRows& out) const override {
    const format::CodeFormat format = *codes();
    const std::size_t row_bytes = format::code_row_bytes(format.q, cols());
    const std::size_t width = format::dtype_bytes(format.scale_type);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(cols()));
    std::byte *scales = out.scales, *biases = out.biases;
    for (std::int64_t row = first; row < first + count; ++row) {
      layout_.unpack_row(row, codes.data());
      format::pack_codes(codes.data(), layout_.bits, cols(),
                         out.codes + static_cast<std::size_t>(row - first) * row_bytes);
      for (std::int64_t col = 0; col < cols(); col += group_, scales += width, biases += width) {
        const std::int64_t group = col / layout_.group;
        const float scale = layout_.scale(row, group);
        store(scale, format.scale_type, scales);
        store(-static_cast<float>(zero(row, group)) * scale, format.scale_type, biases);
      }
    }
  }

 private:
  unsigned zero(std::int64_t row, std::int64_t group) const {
    return layout_.zero ? layout_.zero(row, group) : 1U << (layout_.bits - 1);
  }

  /// Then every bias is a power of two times its scale.
  bool zeros_are_the_middle() const {
    if (!layout_.zero) return true;
    const std::int64_t groups = (cols() + layout_.group - 1) / layout_.group;
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t group = 0; group < groups; ++group) {
        if (layout_.zero(row, group) != 1U << (layout_.bits - 1)) return false;
      }
    }
    return true;
  }

  GridLayout layout_;
  int group_;
  bool even_;
};

}  // namespace

unsigned BitStream::at(std::int64_t index) const {
  const std::uint32_t mask = (1U << bits) - 1U;
  if (per_word > 0) {
    return (load_word(words, index / per_word * step) >> (index % per_word * bits)) & mask;
  }
  const std::int64_t bit = index * bits, word = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  std::uint64_t pair = load_word(words, word * step) + added_to_words;
  pair &= 0xFFFFFFFFU;
  if (shift + bits > 32) pair |= static_cast<std::uint64_t>(load_word(words, (word + 1) * step)) << 32;
  return (static_cast<std::uint32_t>(pair >> shift) + added_to_values) & mask;
}

format::MatrixPointer grid_matrix(GridLayout layout) {
  return std::make_shared<GridMatrix>(std::move(layout));
}

}  // namespace ft::convert
