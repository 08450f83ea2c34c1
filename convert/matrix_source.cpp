#include "convert/matrix_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "format/block_floats.h"

namespace ft::convert {
namespace {

using format::DType;
using format::QuantMode;

class PlainMatrix final : public MatrixSource {
 public:
  PlainMatrix(const format::TensorView& tensor, std::int64_t rows, std::int64_t cols)
      : MatrixSource(rows, cols, tensor.dtype), data_(tensor.bytes.data()) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    format::load_floats(data_, type(), static_cast<std::size_t>(first * cols()),
                        static_cast<std::size_t>(count * cols()), out);
  }
  bool plain() const override { return true; }

 private:
  const std::byte* data_;
};

class MlxMatrix final : public MatrixSource {
 public:
  explicit MlxMatrix(const format::StoredMatrix& matrix)
      : MatrixSource(matrix.rows, matrix.cols,
                     matrix.mode == QuantMode::kAffine ? matrix.scale_dtype : DType::kBF16),
        matrix_(matrix) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    if (matrix_.mode == QuantMode::kAffine) {
      format::dequantise_rows(matrix_, first, count, out);
    } else {
      format::dequantise_block_rows(matrix_, first, count, out);
    }
  }

  std::optional<CodeFormat> codes() const override {
    return CodeFormat{{matrix_.mode, matrix_.bits, matrix_.group}, matrix_.scale_dtype, true};
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const override {
    const CodeFormat format = *codes();
    const std::size_t row = code_row_bytes(format.q, cols());
    const std::size_t scales = scale_row_bytes(format, cols());
    const auto at = static_cast<std::size_t>(first), rows = static_cast<std::size_t>(count);
    std::memcpy(out.codes, matrix_.data + at * row, rows * row);
    std::memcpy(out.scales, matrix_.scales + at * scales, rows * scales);
    if (out.biases != nullptr) std::memcpy(out.biases, matrix_.biases + at * scales, rows * scales);
  }

 private:
  format::StoredMatrix matrix_;
};

/// Rows of other matrices: each run of rows is read at once.
class MappedRows : public MatrixSource {
 public:
  using MatrixSource::MatrixSource;

  void read(std::int64_t first, std::int64_t count, float* out) const final {
    for_runs(first, count, [&](const MatrixSource& part, std::int64_t from, std::int64_t rows) {
      part.read(from, rows, out);
      out += rows * cols();
    });
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const final {
    const CodeFormat format = *codes();
    const std::size_t row = code_row_bytes(format.q, cols());
    const std::size_t scales = scale_row_bytes(format, cols());
    CodeRows at = out;
    for_runs(first, count, [&](const MatrixSource& part, std::int64_t from, std::int64_t rows) {
      part.read_codes(from, rows, at);
      at.codes += static_cast<std::size_t>(rows) * row;
      at.scales += static_cast<std::size_t>(rows) * scales;
      if (at.biases != nullptr) at.biases += static_cast<std::size_t>(rows) * scales;
    });
  }

 protected:
  struct Run {
    const MatrixSource* part;
    std::int64_t first, rows;  // rows: until the end of the run
  };
  virtual Run run_at(std::int64_t row) const = 0;

 private:
  template <class Act>
  void for_runs(std::int64_t first, std::int64_t count, Act act) const {
    while (count > 0) {
      const Run run = run_at(first);
      const std::int64_t rows = std::min(count, run.rows);
      act(*run.part, run.first, rows);
      first += rows, count -= rows;
    }
  }
};

class RowBlocks final : public MappedRows {
 public:
  RowBlocks(MatrixPointer whole, std::int64_t rows, std::int64_t block, std::int64_t stride,
            std::int64_t offset)
      : MappedRows(rows, whole->cols(), whole->type()),
        whole_(std::move(whole)),
        block_(block),
        stride_(stride),
        offset_(offset) {}

  std::optional<CodeFormat> codes() const override { return whole_->codes(); }
  std::optional<format::Quantisation> nearest() const override { return whole_->nearest(); }
  bool plain() const override { return whole_->plain(); }

 private:
  Run run_at(std::int64_t row) const override {
    return {whole_.get(), row / block_ * stride_ + offset_ + row % block_, block_ - row % block_};
  }

  MatrixPointer whole_;
  std::int64_t block_, stride_, offset_;
};

class Stacked final : public MappedRows {
 public:
  explicit Stacked(std::vector<MatrixPointer> parts)
      : MappedRows(static_cast<std::int64_t>(parts.size()) * parts.front()->rows(), parts.front()->cols(),
                   parts.front()->type()),
        parts_(std::move(parts)) {}

  std::optional<CodeFormat> codes() const override {
    const std::optional<CodeFormat> first = parts_.front()->codes();
    const bool equal = std::ranges::all_of(parts_, [&](const auto& part) { return part->codes() == first; });
    return equal ? first : std::nullopt;
  }
  std::optional<format::Quantisation> nearest() const override { return parts_.front()->nearest(); }
  bool plain() const override {
    return std::ranges::all_of(parts_, [](const auto& part) { return part->plain(); });
  }

 private:
  Run run_at(std::int64_t row) const override {
    const std::int64_t rows = parts_.front()->rows();
    return {parts_[static_cast<std::size_t>(row / rows)].get(), row % rows, rows - row % rows};
  }

  std::vector<MatrixPointer> parts_;
};

}  // namespace

void MatrixSource::read_codes(std::int64_t, std::int64_t, const CodeRows&) const { FT_ASSERT(false); }

MatrixPointer plain_matrix(const format::TensorView& tensor) {
  const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return std::make_shared<PlainMatrix>(tensor, rows, cols);
}

MatrixPointer mlx_matrix(const format::StoredMatrix& matrix) { return std::make_shared<MlxMatrix>(matrix); }

MatrixPointer row_blocks(MatrixPointer whole, std::int64_t rows, std::int64_t block, std::int64_t stride,
                         std::int64_t offset) {
  return std::make_shared<RowBlocks>(std::move(whole), rows, block, stride, offset);
}

MatrixPointer stacked(std::vector<MatrixPointer> parts) {
  FT_ASSERT(!parts.empty());
  for (const MatrixPointer& part : parts) {
    FT_ASSERT(part->rows() == parts.front()->rows() && part->cols() == parts.front()->cols());
  }
  return std::make_shared<Stacked>(std::move(parts));
}

std::size_t code_row_bytes(const format::Quantisation& q, std::int64_t cols) {
  return static_cast<std::size_t>(cols) * static_cast<std::size_t>(q.bits) / 8;
}

std::size_t scale_row_bytes(const CodeFormat& format, std::int64_t cols) {
  return static_cast<std::size_t>(cols / format.q.group) * format::dtype_bytes(format.scale_type);
}

}  // namespace ft::convert
