// MatrixSource: a matrix of a checkpoint, whatever its format, read by rows: as float32, or as the codes of
// this program's layouts if they can be moved unchanged. Owner: the mapped bytes belong to the opener of the
// checkpoint. Thread: reads are const, allocate nothing and may run on several threads. Cost: rows are
// decoded on every read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "format/affine.h"
#include "format/quantisation.h"
#include "format/tensor.h"

namespace ft::format {

/// Where the codes of some rows go. Biases are null for block floats.
struct CodeRows {
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;
  std::byte* biases = nullptr;
};

/// Where they go with a byte for each code. Scales and biases are as in CodeRows or, if `factors` is not
/// null, int8 integers of FactoredScales. Their float16 factors follow each other: for each `columns` columns
/// one of the scales and, unless `zero`, one of the biases.
struct ApartRows {
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;
  std::byte* biases = nullptr;
  std::byte* factors = nullptr;
};

/// Scales, and biases, that are products: within `columns` columns of a row, a float16 times integers from
/// -128 to 127. The product is exact.
struct FactoredScales {
  int columns = 0;  // 0: they are not
  int zero = 0;     // biases are -zero * scale; 0: they have a factor and integers too

  bool operator==(const FactoredScales&) const = default;
};

/// The layout that a matrix can become without a new choice of codes. MLX has no groups of 16.
struct CodeFormat {
  Quantisation q;
  DType scale_type = DType::kBF16;
  bool exact = true;  // decodes to the same float32 values as the source's own definition
  FactoredScales factored = {};
  bool apart = false;  // read_apart() gives them too

  bool operator==(const CodeFormat&) const = default;
};

class MatrixSource {
 public:
  /// `type`: F32, F16 or BF16, the type that the decoded values have or fit best.
  MatrixSource(std::int64_t rows, std::int64_t cols, DType type) : rows_(rows), cols_(cols), type_(type) {}
  MatrixSource(const MatrixSource&) = delete;
  MatrixSource& operator=(const MatrixSource&) = delete;
  virtual ~MatrixSource() = default;

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  DType type() const { return type_; }

  /// Rows [first, first + count) as float32, (count, cols).
  virtual void read(std::int64_t first, std::int64_t count, float* out) const = 0;
  /// Empty if the matrix has no codes that could be moved.
  virtual std::optional<CodeFormat> codes() const { return std::nullopt; }
  /// If codes() is empty: the MLX format that adds little error; empty: plain values of type().
  virtual std::optional<Quantisation> nearest() const { return std::nullopt; }
  /// True if the values are stored as type() and so lose nothing when written as it.
  virtual bool plain() const { return false; }
  /// The type that read_values() gives: type() if plain(), else F32.
  DType value_type() const { return plain() ? type() : DType::kF32; }
  /// The same rows in value_type(); `out` is aligned for it.
  virtual void read_values(std::int64_t first, std::int64_t count, std::byte* out) const;
  /// These rows are needed soon: their bytes may be read from the disk meanwhile.
  virtual void read_ahead(std::int64_t, std::int64_t) const {}
  /// Only if codes() has a value.
  virtual void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const;
  /// Only if codes()->apart; factors only if codes()->factored.
  virtual void read_apart(std::int64_t first, std::int64_t count, const ApartRows& out) const;

 private:
  std::int64_t rows_, cols_;
  DType type_;
};

using MatrixPointer = std::shared_ptr<const MatrixSource>;

/// A plain tensor; all sides but the last are rows.
MatrixPointer plain_matrix(const TensorView& tensor);
/// An MLX matrix, affine or of block floats.
MatrixPointer mlx_matrix(const StoredMatrix& matrix);
/// Row r is row (r / block) * stride + offset + r % block of `whole`: the gates of fused experts, say.
MatrixPointer row_blocks(MatrixPointer whole, std::int64_t rows, std::int64_t block, std::int64_t stride,
                         std::int64_t offset);
/// From row `first` on, block b of the result is block order[b] of `whole`.
MatrixPointer rows_in_order(MatrixPointer whole, std::int64_t first, std::int64_t block,
                            std::vector<std::int64_t> order);
/// Columns [b * block, (b + 1) * block) are block order[b] of `whole`. Codes move if groups divide the block.
MatrixPointer columns_in_order(MatrixPointer whole, std::int64_t block, std::vector<std::int64_t> order);
/// Rows of a transposed stack of matrices [count, columns, rows]: row r of the result, of `rows` in all, is
/// column r % each * step + first of matrix r / each, with each = rows / count.
MatrixPointer turned_rows(const TensorView& stack, std::int64_t rows, std::int64_t step, std::int64_t first);
/// All rows of each part, in order. The parts have equal columns and formats.
MatrixPointer stacked(std::vector<MatrixPointer> parts);

/// All sides but the last are rows.
std::int64_t rows_of(std::span<const std::int64_t> shape);

/// Bytes of the codes, scales and biases of one row.
std::size_t code_row_bytes(const Quantisation& q, std::int64_t cols);
std::size_t scale_row_bytes(const CodeFormat& format, std::int64_t cols);
/// Bytes of the factors of one row.
std::size_t factor_row_bytes(const FactoredScales& factored, std::int64_t cols);

}  // namespace ft::format
