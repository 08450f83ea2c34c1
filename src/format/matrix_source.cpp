#include "format/matrix_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/system.h"
#include "format/block_floats.h"

namespace ft::format {
namespace {

class PlainMatrix final : public MatrixSource {
 public:
  PlainMatrix(const TensorView& tensor, std::int64_t rows, std::int64_t cols)
      : MatrixSource(rows, cols, tensor.dtype), data_(tensor.bytes.data()) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    load_floats(data_, type(), static_cast<std::size_t>(first * cols()),
                static_cast<std::size_t>(count * cols()), out);
  }
  void read_ahead(std::int64_t first, std::int64_t count) const override {
    const auto row = static_cast<std::size_t>(cols()) * dtype_bytes(type());
    ft::read_ahead(data_ + static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
  }
  bool plain() const override { return true; }
  void read_values(std::int64_t first, std::int64_t count, std::byte* out) const override {
    const auto row = static_cast<std::size_t>(cols()) * dtype_bytes(type());
    std::memcpy(out, data_ + static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
  }

 private:
  const std::byte* data_;
};

class MlxMatrix final : public MatrixSource {
 public:
  explicit MlxMatrix(const StoredMatrix& matrix)
      : MatrixSource(matrix.rows, matrix.cols,
                     matrix.mode == QuantMode::kAffine ? matrix.scale_dtype : DType::kBF16),
        matrix_(matrix) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    if (matrix_.mode == QuantMode::kAffine) {
      dequantise_rows(matrix_, first, count, out);
    } else {
      dequantise_block_rows(matrix_, first, count, out);
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
  StoredMatrix matrix_;
};

/// Bytes of one row of ApartRows.
struct ApartSizes {
  std::size_t codes, scales, factors;

  ApartSizes(const CodeFormat& format, std::int64_t cols, bool factored)
      : codes(static_cast<std::size_t>(cols)),
        scales(factored ? codes / static_cast<std::size_t>(format.q.group) : scale_row_bytes(format, cols)),
        factors(factored ? factor_row_bytes(format.factored, cols) : 0) {}
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

  void read_ahead(std::int64_t first, std::int64_t count) const final {
    for_runs(first, count, [](const MatrixSource& part, std::int64_t from, std::int64_t rows) {
      part.read_ahead(from, rows);
    });
  }

  void read_values(std::int64_t first, std::int64_t count, std::byte* out) const final {
    const std::size_t row = static_cast<std::size_t>(cols()) * dtype_bytes(value_type());
    for_runs(first, count, [&](const MatrixSource& part, std::int64_t from, std::int64_t rows) {
      part.read_values(from, rows, out);
      out += static_cast<std::size_t>(rows) * row;
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

  void read_apart(std::int64_t first, std::int64_t count, const ApartRows& out) const final {
    const ApartSizes size(*codes(), cols(), out.factors != nullptr);
    ApartRows at = out;
    for_runs(first, count, [&](const MatrixSource& part, std::int64_t from, std::int64_t rows) {
      part.read_apart(from, rows, at);
      const auto step = static_cast<std::size_t>(rows);
      at.codes += step * size.codes;
      at.scales += step * size.scales;
      if (at.biases != nullptr) at.biases += step * size.scales;
      if (at.factors != nullptr) at.factors += step * size.factors;
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
  std::optional<Quantisation> nearest() const override { return whole_->nearest(); }
  bool plain() const override { return whole_->plain(); }

 private:
  Run run_at(std::int64_t row) const override {
    return {whole_.get(), row / block_ * stride_ + offset_ + row % block_, block_ - row % block_};
  }

  MatrixPointer whole_;
  std::int64_t block_, stride_, offset_;
};

class OrderedRows final : public MappedRows {
 public:
  OrderedRows(MatrixPointer whole, std::int64_t first, std::int64_t block, std::vector<std::int64_t> order)
      : MappedRows(whole->rows(), whole->cols(), whole->type()),
        whole_(std::move(whole)),
        first_(first),
        block_(block),
        order_(std::move(order)) {}

  std::optional<CodeFormat> codes() const override { return whole_->codes(); }
  std::optional<Quantisation> nearest() const override { return whole_->nearest(); }
  bool plain() const override { return whole_->plain(); }

 private:
  Run run_at(std::int64_t row) const override {
    if (row < first_) return {whole_.get(), row, first_ - row};
    const std::int64_t at = row - first_;
    const std::int64_t from = order_[static_cast<std::size_t>(at / block_)];
    return {whole_.get(), first_ + from * block_ + at % block_, block_ - at % block_};
  }

  MatrixPointer whole_;
  std::int64_t first_, block_;
  std::vector<std::int64_t> order_;
};

class OrderedColumns final : public MatrixSource {
 public:
  OrderedColumns(MatrixPointer whole, std::int64_t block, std::vector<std::int64_t> order)
      : MatrixSource(whole->rows(), whole->cols(), whole->type()),
        whole_(std::move(whole)),
        block_(block),
        blocks_(order.size()) {
    // The swaps that bring block order[b] to place b, so that a row needs no second copy.
    for (std::size_t b = 0; b < blocks_; ++b) {
      auto from = static_cast<std::size_t>(order[b]);
      while (from < b) from = static_cast<std::size_t>(order[from]);
      if (from != b) exchanges_.emplace_back(b, from);
    }
  }

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    whole_->read(first, count, out);
    rearrange(reinterpret_cast<std::byte*>(out), count, static_cast<std::size_t>(cols()) * sizeof(float));
  }

  std::optional<CodeFormat> codes() const override {
    std::optional<CodeFormat> format = whole_->codes();
    if (!format || block_ % format->q.group != 0) return std::nullopt;
    if (format->factored.columns > 0 && block_ % format->factored.columns != 0) format->factored = {};
    return format;
  }
  std::optional<Quantisation> nearest() const override { return whole_->nearest(); }
  bool plain() const override { return whole_->plain(); }
  void read_ahead(std::int64_t first, std::int64_t count) const override { whole_->read_ahead(first, count); }

  void read_values(std::int64_t first, std::int64_t count, std::byte* out) const override {
    whole_->read_values(first, count, out);
    rearrange(out, count, static_cast<std::size_t>(cols()) * dtype_bytes(value_type()));
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const override {
    const CodeFormat format = *codes();
    whole_->read_codes(first, count, out);
    rearrange(out.codes, count, code_row_bytes(format.q, cols()));
    rearrange(out.scales, count, scale_row_bytes(format, cols()));
    if (out.biases != nullptr) rearrange(out.biases, count, scale_row_bytes(format, cols()));
  }

  void read_apart(std::int64_t first, std::int64_t count, const ApartRows& out) const override {
    const ApartSizes size(*codes(), cols(), out.factors != nullptr);
    whole_->read_apart(first, count, out);
    rearrange(out.codes, count, size.codes);
    rearrange(out.scales, count, size.scales);
    if (out.biases != nullptr) rearrange(out.biases, count, size.scales);
    if (out.factors != nullptr) rearrange(out.factors, count, size.factors);
  }

 private:
  void rearrange(std::byte* rows, std::int64_t count, std::size_t row_bytes) const {
    const std::size_t bytes = row_bytes / blocks_;
    for (std::int64_t r = 0; r < count; ++r, rows += row_bytes) {
      for (const auto& [a, b] : exchanges_)
        std::swap_ranges(rows + a * bytes, rows + (a + 1) * bytes, rows + b * bytes);
    }
  }

  MatrixPointer whole_;
  std::int64_t block_;
  std::size_t blocks_;
  std::vector<std::pair<std::size_t, std::size_t>> exchanges_;
};

/// Columns of stored matrices. Rows of a run are read together, because their elements are neighbours.
class TurnedRows final : public MatrixSource {
 public:
  TurnedRows(const TensorView& stack, std::int64_t rows, std::int64_t step, std::int64_t first)
      : MatrixSource(rows, stack.shape[1], stack.dtype),
        data_(stack.bytes.data()),
        each_(rows / stack.shape[0]),
        line_(stack.shape[2]),
        step_(step),
        first_(first) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for_elements(first, count,
                 [&](std::size_t from, std::int64_t to) { load_floats(data_, type(), from, 1, out + to); });
  }
  bool plain() const override { return true; }
  void read_values(std::int64_t first, std::int64_t count, std::byte* out) const override {
    const std::size_t size = dtype_bytes(type());
    for_elements(first, count, [&](std::size_t from, std::int64_t to) {
      std::memcpy(out + static_cast<std::size_t>(to) * size, data_ + from * size, size);
    });
  }

 private:
  template <class Act>
  void for_elements(std::int64_t first, std::int64_t count, const Act& act) const {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t matrix = (first + done) / each_, row = (first + done) % each_;
      const std::int64_t run = std::min(count - done, each_ - row);
      for (std::int64_t c = 0; c < cols(); ++c) {
        const std::int64_t line = (matrix * cols() + c) * line_ + first_;
        for (std::int64_t r = 0; r < run; ++r)
          act(static_cast<std::size_t>(line + (row + r) * step_), (done + r) * cols() + c);
      }
      done += run;
    }
  }

  const std::byte* data_;
  std::int64_t each_, line_, step_, first_;
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
  std::optional<Quantisation> nearest() const override { return parts_.front()->nearest(); }
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

void MatrixSource::read_values(std::int64_t first, std::int64_t count, std::byte* out) const {
  FT_ASSERT(!plain());
  read(first, count, reinterpret_cast<float*>(out));
}

void MatrixSource::read_codes(std::int64_t, std::int64_t, const CodeRows&) const { FT_ASSERT(false); }

void MatrixSource::read_apart(std::int64_t, std::int64_t, const ApartRows&) const { FT_ASSERT(false); }

MatrixPointer plain_matrix(const TensorView& tensor) {
  const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  return std::make_shared<PlainMatrix>(tensor, rows_of(tensor.shape), cols);
}

MatrixPointer mlx_matrix(const StoredMatrix& matrix) { return std::make_shared<MlxMatrix>(matrix); }

MatrixPointer row_blocks(MatrixPointer whole, std::int64_t rows, std::int64_t block, std::int64_t stride,
                         std::int64_t offset) {
  return std::make_shared<RowBlocks>(std::move(whole), rows, block, stride, offset);
}

MatrixPointer rows_in_order(MatrixPointer whole, std::int64_t first, std::int64_t block,
                            std::vector<std::int64_t> order) {
  FT_ASSERT(first + block * static_cast<std::int64_t>(order.size()) == whole->rows());
  return std::make_shared<OrderedRows>(std::move(whole), first, block, std::move(order));
}

MatrixPointer columns_in_order(MatrixPointer whole, std::int64_t block, std::vector<std::int64_t> order) {
  FT_ASSERT(block * static_cast<std::int64_t>(order.size()) == whole->cols());
  return std::make_shared<OrderedColumns>(std::move(whole), block, std::move(order));
}

MatrixPointer turned_rows(const TensorView& stack, std::int64_t rows, std::int64_t step, std::int64_t first) {
  FT_ASSERT(stack.shape.size() == 3 && rows % stack.shape[0] == 0);
  FT_ASSERT((rows / stack.shape[0] - 1) * step + first < stack.shape[2]);
  return std::make_shared<TurnedRows>(stack, rows, step, first);
}

MatrixPointer stacked(std::vector<MatrixPointer> parts) {
  FT_ASSERT(!parts.empty());
  for (const MatrixPointer& part : parts) {
    FT_ASSERT(part->rows() == parts.front()->rows() && part->cols() == parts.front()->cols());
  }
  return std::make_shared<Stacked>(std::move(parts));
}

std::int64_t rows_of(std::span<const std::int64_t> shape) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

std::size_t code_row_bytes(const Quantisation& q, std::int64_t cols) {
  return static_cast<std::size_t>(cols) * static_cast<std::size_t>(q.bits) / 8;
}

std::size_t scale_row_bytes(const CodeFormat& format, std::int64_t cols) {
  return static_cast<std::size_t>(cols / format.q.group) * dtype_bytes(format.scale_type);
}

std::size_t factor_row_bytes(const FactoredScales& factored, std::int64_t cols) {
  const int kinds = factored.zero != 0 ? 1 : 2;
  return static_cast<std::size_t>(cols / factored.columns * kinds) * sizeof(std::uint16_t);
}

}  // namespace ft::format
