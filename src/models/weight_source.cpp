#include "models/weight_source.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "format/matrix_source.h"
#include "format/out_of_memory.h"
#include "program/row_source.h"

namespace ft {
namespace {

Format plain_format(format::DType dtype) {
  switch (dtype) {
    case format::DType::kF16:
      return Format::kF16;
    case format::DType::kBF16:
      return Format::kBf16;
    case format::DType::kF8E8M0:
      return Format::kE8m0;
    case format::DType::kF8E4M3:
      return Format::kE4m3;
    default:
      return Format::kF32;
  }
}

Format quantised_format(format::QuantMode mode) {
  switch (mode) {
    case format::QuantMode::kAffine:
      return Format::kAffine;
    case format::QuantMode::kMxfp4:
      return Format::kMxfp4;
    case format::QuantMode::kMxfp8:
      return Format::kMxfp8;
    case format::QuantMode::kNvfp4:
      return Format::kNvfp4;
  }
  return Format::kAffine;
}

/// As a matrix whose rows are read one by one.
format::MatrixPointer rows_of_stored(const format::StoredMatrix& stored) {
  if (stored.matrix != nullptr) return stored.matrix;
  if (stored.quantised) return format::mlx_matrix(stored);
  const auto bytes = static_cast<std::size_t>(stored.rows * stored.cols) * format::dtype_bytes(stored.dtype);
  return format::plain_matrix(
      {stored.name, stored.dtype, {stored.rows, stored.cols}, {stored.data, bytes}, ""});
}

/// The rows of a matrix that the file holds in another form.
class MadeRows final : public RowSource {
 public:
  explicit MadeRows(const format::StoredMatrix& stored)
      : matrix_(stored.matrix), quantised_(stored.quantised) {}

  void copy(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    if (quantised_) {
      matrix_->read_codes(first, count, {to.data, to.scales, to.biases});
    } else {
      matrix_->read_values(first, count, to.data);
    }
  }
  void read(std::int64_t first, std::int64_t count, float* out) const override {
    matrix_->read(first, count, out);
  }
  ScaleFactors factors() const override {
    if (!quantised_) return {};
    const format::FactoredScales found = matrix_->codes()->factored;
    return {found.columns, found.zero};
  }
  bool apart() const override { return quantised_ && matrix_->codes()->apart; }
  void copy_apart(std::int64_t first, std::int64_t count, const RowBytes& to) const override {
    matrix_->read_apart(first, count, {to.data, to.scales, to.biases, to.factors});
  }

 private:
  format::MatrixPointer matrix_;
  bool quantised_;
};

Weight to_weight(const format::StoredMatrix& stored) {
  Weight weight;
  weight.name = stored.name;
  weight.format = stored.quantised ? quantised_format(stored.mode) : plain_format(stored.dtype);
  weight.rows = stored.rows;
  weight.cols = stored.cols;
  weight.data = stored.data;
  if (stored.matrix != nullptr) weight.from = std::make_shared<MadeRows>(stored);
  if (stored.quantised) {
    weight.bits = stored.bits;
    weight.group = stored.group;
    weight.scales = stored.scales;
    weight.biases = stored.biases;
    weight.scale_format = plain_format(stored.scale_dtype);
  }
  return weight;
}

}  // namespace

WeightSource::WeightSource(const Family& family, format::WeightIndex index)
    : family_(&family), index_(std::move(index)) {}

Result<WeightSource> WeightSource::open(const Family& family, const format::Checkpoint& checkpoint,
                                        const FamilyConfig& config) {
  return format::with_memory_guard("open the weights", checkpoint.directory(), [&]() -> Result<WeightSource> {
    format::WeightLayout layout = {config.path, family.prefixes, config.quantisation, config.tied};
    WeightSource source(family, format::WeightIndex(checkpoint, std::move(layout)));
    // In a GGUF file all norms multiply as they are stored.
    if (family.norm_offset != nullptr && checkpoint.metadata_format() != "gguf") {
      FT_ASSIGN(source.norm_offset_, family.norm_offset(source.index_, config));
    }
    return source;
  });
}

/// Names in the index end in ".weight", except parameters that are not weights of a module.
std::string WeightSource::stored_name(const std::string& name) const {
  const bool bare =
      std::ranges::any_of(family_->bare_names, [&](std::string_view leaf) { return name.ends_with(leaf); });
  return bare ? name : name + ".weight";
}

bool WeightSource::has(const std::string& name) const { return index_.has(stored_name(name)); }

void WeightSource::fail(Error error) {
  if (!context_.empty()) error.message = context_ + ": " + error.message;
  if (status_.ok()) status_ = std::move(error);
}

Weight WeightSource::keep(Result<format::StoredMatrix> stored, std::int64_t rows, std::int64_t cols) {
  if (!stored.ok()) {
    fail(stored.error());
    Weight absent;  // of the shape that was asked for, so that the program stays well formed until status()
                    // is read
    absent.rows = rows;
    absent.cols = cols;
    return absent;
  }
  Weight weight = to_weight(*stored);
  if (!counted_.insert(weight.name).second) return weight;
  const std::string words = weight.format == Format::kAffine
                                ? fmt::format("{}-bit group {}", weight.bits, weight.group)
                                : std::string(format_name(weight.format));
  if (weight.rows > 1) formats_[words] += weight.rows * weight.cols;
  parameters_ += weight.rows * weight.cols;
  return weight;
}

Weight WeightSource::matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return keep(index_.matrix(stored_name(name), rows, cols), rows, cols);
}

Weight WeightSource::matrix_in_order(const std::string& name, std::int64_t rows, std::int64_t cols,
                                     std::int64_t block, std::vector<std::int64_t> order) {
  Result<format::StoredMatrix> stored = index_.matrix(stored_name(name), rows, cols);
  if (stored.ok()) {
    stored->matrix = format::rows_in_order(rows_of_stored(*stored), 0, block, std::move(order));
    stored->data = stored->scales = stored->biases = nullptr;
  }
  return keep(std::move(stored), rows, cols);
}

std::vector<Weight> WeightSource::stack(const std::string& name, int count, std::int64_t rows,
                                        std::int64_t cols) {
  const std::string stored = index_.has(name + ".weight") ? name + ".weight" : name;
  return split(keep(index_.stack(stored, count, rows, cols), count * rows, cols), rows);
}

std::vector<Weight> WeightSource::split(const Weight& stack, std::int64_t rows) {
  std::vector<Weight> parts;
  parts.reserve(static_cast<std::size_t>(stack.rows / rows));
  for (std::int64_t i = 0; i < stack.rows / rows; ++i)
    parts.push_back(rows_of(stack, i * rows, rows, fmt::format("{}[{}]", stack.name, i)));
  return parts;
}

Weight WeightSource::flat_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return keep(index_.flat_matrix(stored_name(name), rows, cols), rows, cols);
}

Weight WeightSource::vector(const std::string& name, std::int64_t size) {
  return keep(index_.vector(stored_name(name), size), 1, size);
}

Weight WeightSource::norm(const std::string& name, std::int64_t size) {
  Weight weight = vector(name, size);
  weight.offset = name.starts_with("mtp.") ? mtp_norm_offset_ : norm_offset_;
  return weight;
}

Status WeightSource::status() { return std::exchange(status_, Status()); }

std::string WeightSource::summary() const {
  std::vector<std::pair<std::int64_t, std::string>> parts;
  for (const auto& [words, parameters] : formats_) parts.emplace_back(-parameters, words);
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const auto& [parameters, words] : parts) {
    text += fmt::format("{}{} {:.1f}%", text.empty() ? "" : ", ", words,
                        -100.0 * static_cast<double>(parameters) / static_cast<double>(parameters_));
  }
  return text;
}

}  // namespace ft
