#include "models/gpt_oss/experts.h"

#include <fmt/format.h>
#include <utility>

#include "format/matrix_source.h"

namespace ft::gpt_oss {
namespace {

using format::DType;
using format::MatrixPointer;
using format::StoredMatrix;
using format::TensorView;

constexpr const char* kAgain = "the checkpoint does not fit its config.json: download both again";
constexpr std::int64_t kGroup = 32;  // of MXFP4

/// The rows to read of a stack: all, or only gate's or up's if the two alternate.
enum class Rows { kAll, kGate, kUp };

class Reader {
 public:
  Reader(WeightSource& source, std::string prefix, const ExpertSizes& sizes)
      : source_(source), prefix_(std::move(prefix)), sizes_(sizes) {}

  Experts read() {
    Experts found;
    if (source_.has(prefix_ + "gate_proj")) {
      found.gate = source_.stack(prefix_ + "gate_proj", sizes_.experts, sizes_.size, sizes_.hidden);
      found.up = source_.stack(prefix_ + "up_proj", sizes_.experts, sizes_.size, sizes_.hidden);
      found.down = source_.stack(prefix_ + "down_proj", sizes_.experts, sizes_.hidden, sizes_.size);
      found.gate_bias = source_.matrix(prefix_ + "gate_proj.bias", sizes_.experts, sizes_.size);
      found.up_bias = source_.matrix(prefix_ + "up_proj.bias", sizes_.experts, sizes_.size);
      found.down_bias = source_.matrix(prefix_ + "down_proj.bias", sizes_.experts, sizes_.hidden);
      return found;
    }
    found.gate = matrices("gate_up_proj", Rows::kGate), found.up = matrices("gate_up_proj", Rows::kUp);
    found.down = matrices("down_proj", Rows::kAll);
    found.gate_bias = bias("gate_up_proj", Rows::kGate), found.up_bias = bias("gate_up_proj", Rows::kUp);
    found.down_bias = bias("down_proj", Rows::kAll);
    return found;
  }

 private:
  const TensorView* find(const std::string& name) { return source_.index().find(name); }
  std::int64_t stored_rows(Rows rows) const { return rows == Rows::kAll ? sizes_.hidden : 2 * sizes_.size; }
  std::int64_t rows_of(Rows rows) const { return rows == Rows::kAll ? sizes_.hidden : sizes_.size; }
  std::int64_t cols_of(Rows rows) const { return rows == Rows::kAll ? sizes_.size : sizes_.hidden; }

  std::vector<Weight> matrices(const std::string& module, Rows rows) {
    const std::int64_t all = sizes_.experts * rows_of(rows);
    const bool codes = find(prefix_ + module + "_blocks") != nullptr;
    Weight stack = source_.take(codes ? coded(module, rows) : plain(module, rows), all, cols_of(rows));
    return WeightSource::split(stack, rows_of(rows));
  }

  Result<const TensorView*> need(const std::string& name, const std::vector<std::int64_t>& shape,
                                 bool floats) {
    const TensorView* tensor = find(name);
    if (tensor == nullptr) {
      return Error{Code::kNotFound, source_.index().checkpoint().directory() + ": expected a tensor " +
                                        format::in_quotes(name) +
                                        ", found none; the checkpoint is incomplete: download it again"};
    }
    const bool good = floats ? format::dtype_is_float(tensor->dtype) : tensor->dtype == DType::kU8;
    if (good && tensor->shape == shape) return tensor;
    return format::tensor_error(
        Code::kCorrupt, tensor->file, tensor->name,
        fmt::format("{} {}", floats ? "F32, F16 or BF16" : "U8", format::shape_text(shape)),
        fmt::format("{} {}", format::dtype_name(tensor->dtype), format::shape_text(tensor->shape)), kAgain);
  }

  /// 16 bytes hold the codes of 32 columns, the lower half of a byte first, which is the order of the
  /// program's own format.
  Result<StoredMatrix> coded(const std::string& module, Rows rows) {
    const std::int64_t cols = cols_of(rows), groups = cols / kGroup;
    const std::string name = prefix_ + module;
    const std::vector<std::int64_t> shape = {sizes_.experts, stored_rows(rows), groups};
    FT_ASSIGN(const TensorView* blocks,
              need(name + "_blocks", {shape[0], shape[1], groups, kGroup / 2}, false));
    FT_ASSIGN(const TensorView* scales, need(name + "_scales", shape, false));
    if (cols % kGroup != 0) {
      return format::tensor_error(Code::kCorrupt, blocks->file, blocks->name,
                                  fmt::format("{} columns", groups * kGroup), fmt::format("{}", cols),
                                  kAgain);
    }
    StoredMatrix whole;
    whole.name = blocks->name, whole.dtype = DType::kU32, whole.quantised = true;
    whole.bits = 4, whole.group = kGroup, whole.mode = format::QuantMode::kMxfp4;
    whole.rows = shape[0] * shape[1], whole.cols = cols;
    whole.data = blocks->bytes.data(), whole.scales = scales->bytes.data();
    whole.scale_dtype = DType::kF8E8M0;
    if (rows == Rows::kAll) return whole;
    return part(*blocks, format::mlx_matrix(whole), rows);
  }

  /// Stored as the factor at the right of a row: [experts, in, out].
  Result<StoredMatrix> plain(const std::string& module, Rows rows) {
    FT_ASSIGN(const TensorView* stack,
              need(prefix_ + module, {sizes_.experts, cols_of(rows), stored_rows(rows)}, true));
    const std::int64_t step = rows == Rows::kAll ? 1 : 2, first = rows == Rows::kUp ? 1 : 0;
    return made(*stack, format::turned_rows(*stack, sizes_.experts * rows_of(rows), step, first), rows);
  }

  Weight bias(const std::string& module, Rows rows) {
    const std::int64_t all = sizes_.experts * rows_of(rows);
    const auto found = [&]() -> Result<StoredMatrix> {
      FT_ASSIGN(const TensorView* stored,
                need(prefix_ + module + "_bias", {sizes_.experts, stored_rows(rows)}, true));
      TensorView column = *stored;
      column.shape = {sizes_.experts * stored_rows(rows), 1};
      const MatrixPointer whole = format::plain_matrix(column);
      return rows == Rows::kAll ? made(*stored, whole, rows) : part(*stored, whole, rows);
    };
    return source_.take(found(), all, 1);
  }

  /// Every second row of a stack.
  Result<StoredMatrix> part(const TensorView& of, MatrixPointer whole, Rows rows) {
    const std::int64_t count = whole->rows() / 2;
    return made(of, format::row_blocks(std::move(whole), count, 1, 2, rows == Rows::kUp ? 1 : 0), rows);
  }

  Result<StoredMatrix> made(const TensorView& of, MatrixPointer matrix, Rows rows) {
    TensorView view = of;
    view.name += rows == Rows::kGate ? " (gate)" : rows == Rows::kUp ? " (up)" : "";
    view.shape = {matrix->rows(), matrix->cols()};
    view.matrix = std::move(matrix);
    return source_.index().made(view, view.shape[0], view.shape[1]);
  }

  WeightSource& source_;
  std::string prefix_;
  ExpertSizes sizes_;
};

}  // namespace

Experts read_experts(WeightSource& source, const std::string& layer, const ExpertSizes& sizes) {
  source.set_context(layer);
  Experts found = Reader(source, layer + ".mlp.experts.", sizes).read();
  source.set_context("");
  return found;
}

}  // namespace ft::gpt_oss
