// Floats to MLX's block formats (mxfp4, mxfp8, nvfp4): codes and one scale byte a group. The result has the
// bits of `mx.quantize` of MLX 0.32.4 on a CPU for every input: it computes in the element type of the source
// (bf16 and f16 sources round in between), takes the scale e8m0 = ceil(log2(largest / maximum code)), rounds
// ties of e2m1 towards zero and ties of e4m3 to even. A group with an infinity or a NaN gets MLX's codes too,
// which mean nothing: a caller checks its input. MLX's GPU kernels may differ by one code at ties. Source:
// mlx `quantize` (fallback of ops.cpp) and fp8.h, by comparison; tests/golden/quant/odd.safetensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/affine.h"
#include "format/quantisation.h"
#include "format/tensor.h"

namespace ft::format {

/// values (groups, group of the mode) to packed codes and a byte of scale per group. `source` is F32, F16 or
/// BF16: the type that the values had. Allocates nothing.
void quantise_blocks(const float* values, std::int64_t groups, QuantMode mode, DType source,
                     std::uint32_t* words, std::byte* scales);

/// Rows [first, first + count) of a matrix of block floats as float32, (count, cols): code * scale, rounded
/// once.
void dequantise_block_rows(const StoredMatrix& matrix, std::int64_t first, std::int64_t count, float* out);

/// The nearest e4m3, ties to even, at most 448 in magnitude; the sign is kept, also of zeros.
std::uint8_t float_to_e4m3(float value);

}  // namespace ft::format
