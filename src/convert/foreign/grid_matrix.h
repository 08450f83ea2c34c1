// GridMatrix: integer codes with a scale and a zero point per group: value = (code - zero) * scale. The
// layouts of GPTQ, AutoAWQ and compressed-tensors pack the same three things differently. In MLX's affine
// matrix the codes stay, and bias = -zero * scale. That is exact if the zero is a power of two, or if scales
// and biases are float32. Sources: GPTQModel, AutoAWQ, compressed-tensors (packing by definition).
#pragma once

#include <functional>

#include "format/matrix_source.h"

namespace ft::convert {

/// Values packed as a dense stream, least significant bit first, along words that are `step` words apart.
struct BitStream {
  const std::byte* words = nullptr;  // int32, any alignment
  std::int64_t step = 1;             // words from one word of the stream to the next
  int bits = 4;
  int per_word = 0;                   // 0: dense; otherwise the values that a word holds
  std::uint32_t added_to_words = 0;   // GPTQ's zeros are stored less one, word by word
  std::uint32_t added_to_values = 0;  // the same if fields cross words

  unsigned at(std::int64_t index) const;
};

struct GridLayout {
  std::int64_t rows = 0, cols = 0;
  int bits = 4;
  std::int64_t group = 128;  // columns; cols for one group a row
  std::function<void(std::int64_t row, std::uint8_t* codes)> unpack_row;
  std::function<float(std::int64_t row, std::int64_t group)> scale;
  std::function<unsigned(std::int64_t row, std::int64_t group)> zero;  // null: 2^(bits - 1)
  std::vector<std::int64_t> group_of_column;  // not empty: columns are permuted (GPTQ with act order)
  format::DType scale_type = format::DType::kF16;
  bool float32_scales = false;  // for codes(): exact whatever the zeros
};

format::MatrixPointer grid_matrix(GridLayout layout);

}  // namespace ft::convert
