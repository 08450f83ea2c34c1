// Matrices of small floats: FP8 with block, row or tensor scales, and NVFP4 with a global scale. value =
// code * scale in float32; a global scale is multiplied into the scale first, as the reference libraries do.
#pragma once

#include "format/matrix_source.h"

namespace ft::convert {

/// FP8 codes (e4m3) and the scales of blocks of `block_rows` x `block_cols`, in row-major order of blocks.
struct Fp8Layout {
  std::int64_t rows = 0, cols = 0;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  format::DType scale_type = format::DType::kF32;
  std::int64_t block_rows = 128, block_cols = 128;
};
/// If every scale is a power of two, the codes are mxfp8 codes.
format::MatrixPointer fp8_matrix(const Fp8Layout& layout);

/// e2m1 codes, low nibble first, with e4m3 scales of 16 columns and a factor for all of them.
struct Nvfp4Layout {
  std::int64_t rows = 0, cols = 0;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  float factor = 1;      // multiplies (ModelOpt's weight_scale_2)
  bool divides = false;  // compressed-tensors: the scale is divided by the factor
};
/// Without a factor, or if every scale times the factor is an e4m3 value, the codes are nvfp4 codes.
format::MatrixPointer nvfp4_matrix(const Nvfp4Layout& layout);

}  // namespace ft::convert
