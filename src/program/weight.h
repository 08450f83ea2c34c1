// A weight as the checkpoint stores it: a name, a shape and pointers into mapped files, or a source of its
// rows (row_source.h). Nothing is copied or converted here; each backend packs the weight when it compiles a
// program. The checkpoint's mapping must outlive every compile that uses the weight. Affine layout (MLX):
// element i of a row is in bits [i * bits, (i + 1) * bits) of the row's little-endian bit stream; value =
// code * scale + bias, with one scale and bias per `group` elements along the columns. Block floats (mxfp4,
// mxfp8, nvfp4: OCP Microscaling and NVIDIA's variant, as MLX stores them) have the same stream; value = code
// * scale, where codes are small floats (format/small_float.h) and scales are bytes. The format fixes their
// width and group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ft {

enum class Format : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kAffine,
  kMxfp4,  // e2m1 codes, groups of 32, scales e8m0
  kMxfp8,  // e4m3 codes, groups of 32, scales e8m0
  kNvfp4,  // e2m1 codes, groups of 16, scales e4m3
  kE8m0,   // of scales only: 2^(byte - 127)
  kE4m3,   // of scales only
};

class RowSource;

struct Weight {
  std::string name;
  Format format = Format::kF32;
  std::int64_t rows = 0;              // outputs; 1 for a vector
  std::int64_t cols = 0;              // inputs
  const std::byte* data = nullptr;    // [rows, cols], row-major; cols * bits / 8 bytes a row if quantised
  int bits = 0;                       // quantised only; affine: 2, 3, 4, 5, 6, 8
  int group = 0;                      // quantised only; affine: 16 (from a RowSource only), 32, 64, 128
  const std::byte* scales = nullptr;  // [rows, cols / group]
  const std::byte* biases = nullptr;  // [rows, cols / group], affine only
  Format scale_format = Format::kBf16;
  float offset = 0;                                 // added to every element: 1 for norms stored around zero
  std::shared_ptr<const RowSource> from = nullptr;  // makes the rows; data, scales and biases are null then
  std::int64_t from_row = 0;                        // of `from`: row 0 of this weight

  bool empty() const { return data == nullptr && from == nullptr; }
  /// Stored as codes and scales.
  bool quantised() const;
  /// Bits of one element, scales apart.
  int stored_bits() const;
  /// Bytes that one pass over the weight reads: codes, scales and biases.
  std::int64_t bytes() const;
};

/// Rows [first, first + count) of a weight, named by the caller.
Weight rows_of(const Weight& weight, std::int64_t first, std::int64_t count, std::string name);
/// The same format, bits, groups and scales.
bool stored_alike(const Weight& a, const Weight& b);
/// Bytes of one element of a plain format or of a scale; 0 for the quantised ones.
int element_bytes(Format format);
/// mxfp4, mxfp8 or nvfp4.
bool is_block_float(Format format);
/// "bf16", "affine", "mxfp4".
std::string_view format_name(Format format);

}  // namespace ft
