#include "cli/commands/weight_matrix.h"

#include "program/row_source.h"

namespace ft::cli {
namespace {

using format::DType;
using format::QuantMode;

DType type_of(Format format) {
  switch (format) {
    case Format::kF16:
      return DType::kF16;
    case Format::kBf16:
      return DType::kBF16;
    case Format::kE8m0:
      return DType::kF8E8M0;
    case Format::kE4m3:
      return DType::kF8E4M3;
    default:
      return DType::kF32;
  }
}

QuantMode mode_of(Format format) {
  switch (format) {
    case Format::kMxfp4:
      return QuantMode::kMxfp4;
    case Format::kMxfp8:
      return QuantMode::kMxfp8;
    case Format::kNvfp4:
      return QuantMode::kNvfp4;
    default:
      return QuantMode::kAffine;
  }
}

/// A weight whose rows are made on demand.
class MadeMatrix final : public format::MatrixSource {
 public:
  explicit MadeMatrix(const Weight& weight)
      : MatrixSource(weight.rows, weight.cols, DType::kF32), from_(weight.from), first_(weight.from_row) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    from_->read(first_ + first, count, out);
  }

 private:
  std::shared_ptr<const RowSource> from_;
  std::int64_t first_;
};

}  // namespace

format::MatrixPointer matrix_of(const Weight& weight) {
  if (weight.from != nullptr) return std::make_shared<MadeMatrix>(weight);
  if (!weight.quantised()) {
    const auto bytes = static_cast<std::size_t>(weight.rows * weight.cols * element_bytes(weight.format));
    return format::plain_matrix(
        {weight.name, type_of(weight.format), {weight.rows, weight.cols}, {weight.data, bytes}, ""});
  }
  format::StoredMatrix stored{weight.name, DType::kU32, true,        weight.bits,   weight.group,
                              weight.rows, weight.cols, weight.data, weight.scales, weight.biases};
  stored.scale_dtype = type_of(weight.scale_format), stored.mode = mode_of(weight.format);
  return format::mlx_matrix(stored);
}

}  // namespace ft::cli
