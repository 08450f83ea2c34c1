// The element types of GGUF as matrices of affine codes, without a new choice: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0
// and IQ4_NL exactly with float16 scales, the K types exactly with float32 scales. Q2_K, Q3_K and Q6_K have
// groups of 16, which MLX's files cannot have. IQ4_NL takes 8 bits, Q2_K and Q3_K take 4. MXFP4 is MLX's
// mxfp4. Source: the definitions of ggml (ggml-quants), checked against gguf-py.
#pragma once

#include <string>

#include "base/result.h"
#include "format/matrix_source.h"

namespace ft::format {

/// Bytes of a tensor of this type and shape; kUnsupported for a type that is not read, by name.
Result<std::uint64_t> gguf_bytes(std::uint32_t type, std::span<const std::int64_t> shape,
                                 const std::string& path, const std::string& tensor);

/// "Q4_K"
std::string gguf_type_name(std::uint32_t type);

/// A matrix over checked bytes. `float32_scales`: where a type needs them to be exact.
MatrixPointer gguf_matrix(std::uint32_t type, std::int64_t rows, std::int64_t cols, const std::byte* bytes,
                          bool float32_scales);

}  // namespace ft::format
