// MLX affine matrices: codes to float32 and back. Element i of a row is in bits [i * bits, (i + 1) * bits) of
// the row's little-endian bit stream. value = code * scale + bias in float32, with two roundings (no fused
// multiply-add). Input bytes may have any address. Shapes are not checked here but where a StoredMatrix is
// made. Source: mlx `affine_quantize` and its CPU kernel (quantize in backend/cpu/quantized.cpp), bit for
// bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "format/quantisation.h"
#include "format/tensor.h"

namespace ft::format {

/// A stored matrix: quantised (data, scales, biases) or plain (data). It does not own its bytes.
struct StoredMatrix {
  std::string name;            // the stored name
  DType dtype = DType::kBF16;  // of data: F32, F16, BF16, or U32 when quantised
  bool quantised = false;
  int bits = 0;   // quantised only
  int group = 0;  // quantised only
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* data = nullptr;      // (rows, cols), or (rows, cols * bits / 8 bytes)
  const std::byte* scales = nullptr;    // (rows, cols / group)
  const std::byte* biases = nullptr;    // (rows, cols / group); affine only
  DType scale_dtype = DType::kBF16;     // of scales and biases: F32, F16 or BF16; else kF8E8M0 or kF8E4M3
  QuantMode mode = QuantMode::kAffine;  // quantised only
  /// Makes the rows if the file holds them in another form; data, scales and biases are null then.
  std::shared_ptr<const MatrixSource> matrix = nullptr;
};

/// The codes of `cols` elements of one row.
void unpack_codes(const std::byte* row, int bits, std::int64_t cols, std::uint8_t* out);

/// The inverse: codes below 2^bits to one row; cols * bits is a multiple of 8.
void pack_codes(const std::uint8_t* codes, int bits, std::int64_t cols, std::byte* row);

/// Rows [first, first + count) of a plain or affine matrix as float32, (count, cols).
void dequantise_rows(const StoredMatrix& matrix, std::int64_t first, std::int64_t count, float* out);

struct AffineMatrix {
  int bits = 0;
  int group = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType scale_dtype = DType::kBF16;
  std::vector<std::uint32_t> words;  // (rows, cols * bits / 32)
  std::vector<std::byte> scales;     // (rows, cols / group) of scale_dtype
  std::vector<std::byte> biases;     // (rows, cols / group) of scale_dtype
};

/// values (groups, group) to codes and, one per group, scales and biases of scale_dtype. Allocates nothing.
void quantise_groups(const float* values, std::int64_t groups, int bits, int group, DType scale_dtype,
                     std::uint32_t* words, std::byte* scales, std::byte* biases);

/// values (rows, cols), where cols is a multiple of group. Codes are chosen with the float32 scale and bias,
/// which are then rounded to scale_dtype, as MLX does for weights of that type.
AffineMatrix quantise_affine(std::span<const float> values, std::int64_t rows, std::int64_t cols, int bits,
                             int group, DType scale_dtype);

/// A view of `matrix`, valid as long as `matrix` is.
StoredMatrix stored(const AffineMatrix& matrix, std::string name);

}  // namespace ft::format
