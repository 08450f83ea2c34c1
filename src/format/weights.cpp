#include "format/weights.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>
#include <utility>

#include "format/matrix_source.h"
#include "format/out_of_memory.h"

namespace ft::format {
namespace {

constexpr const char* kUnfit = "the checkpoint does not fit its config.json: download both again";

/// "X.weight" -> "X.scales"; a name without .weight has no companion tensors.
std::string companion(std::string_view stored, std::string_view leaf) {
  constexpr std::string_view kWeight = ".weight";
  if (!stored.ends_with(kWeight)) return {};
  stored.remove_suffix(kWeight.size());
  return std::string(stored).append(".").append(leaf);
}

bool same_shape(std::span<const std::int64_t> stored, std::initializer_list<std::int64_t> wanted) {
  std::vector<std::int64_t> a;
  std::vector<std::int64_t> b;
  for (const std::int64_t side : stored) {
    if (side != 1) a.push_back(side);
  }
  for (const std::int64_t side : wanted) {
    if (side != 1) b.push_back(side);
  }
  return a == b;
}

Error shape_error(const TensorView& tensor, const std::string& expected) {
  return tensor_error(Code::kCorrupt, tensor.file, tensor.name, expected,
                      std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape), kUnfit);
}

/// True for scales of one byte, whatever type name the exporter gave them.
bool holds_scale_bytes(const TensorView& scales) {
  return scales.dtype == DType::kU8 || scales.dtype == DType::kF8E8M0 || scales.dtype == DType::kF8E4M3;
}

}  // namespace

/// The stored names that a canonical name may have, the most common first.
std::vector<std::string> WeightIndex::candidates(std::string_view name) const {
  std::vector<std::string> result;
  for (const NamePrefixes& place : layout_.prefixes) {
    if (!name.starts_with(place.begins)) continue;
    for (const std::string_view prefix : place.prefixes) result.push_back(std::string(prefix).append(name));
    break;
  }
  return result;
}

const TensorView* WeightIndex::find(std::string_view name) const {
  for (const std::string& stored : candidates(name)) {
    if (const TensorView* tensor = checkpoint_.find(stored)) return tensor;
  }
  return nullptr;
}

Result<const TensorView*> WeightIndex::need(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return tensor;
  std::string tried;
  for (const std::string& stored : candidates(name)) tried += (tried.empty() ? "" : ", ") + in_quotes(stored);
  return Error{Code::kNotFound,
               checkpoint_.directory() + ": expected a tensor of one of the names " + tried +
                   ", found none; the checkpoint is incomplete or of another model: download it "
                   "again"};
}

Result<WeightIndex::Stored> WeightIndex::need_all(std::string_view name) const {
  FT_ASSIGN(const TensorView* tensor, need(name));
  return Stored{tensor, checkpoint_.find(companion(tensor->name, "scales")),
                checkpoint_.find(companion(tensor->name, "biases"))};
}

Result<StoredMatrix> WeightIndex::resolve(const Stored& stored, std::int64_t rows, std::int64_t cols) {
  if (stored.codes->matrix != nullptr) return made(*stored.codes, rows, cols);
  if (stored.scales == nullptr) return plain(*stored.codes, rows, cols);
  return holds_scale_bytes(*stored.scales) ? block_float(stored, rows, cols) : affine(stored, rows, cols);
}

Result<StoredMatrix> WeightIndex::matrix(std::string_view name, std::int64_t rows, std::int64_t cols) {
  return with_memory_guard("look up a weight", name, [&]() -> Result<StoredMatrix> {
    FT_ASSIGN(const Stored stored, need_all(name));
    return resolve(stored, rows, cols);
  });
}

Result<StoredMatrix> WeightIndex::stack(std::string_view name, std::int64_t count, std::int64_t rows,
                                        std::int64_t cols) {
  return with_memory_guard("look up a weight", name, [&]() -> Result<StoredMatrix> {
    FT_ASSIGN(Stored stored, need_all(name));
    std::array<TensorView, 3> flat;  // the same bytes as [count * rows, ..]
    std::size_t used = 0;
    for (const TensorView** tensor : {&stored.codes, &stored.scales, &stored.biases}) {
      if (*tensor == nullptr) continue;
      const std::vector<std::int64_t>& shape = (*tensor)->shape;
      if (shape.size() != 3 || shape[0] != count || shape[1] != rows)
        return shape_error(**tensor, fmt::format("[{},{},..], one matrix for each expert", count, rows));
      flat[used] = **tensor;
      flat[used].shape = {count * rows, shape[2]};
      *tensor = &flat[used++];
    }
    return resolve(stored, count * rows, cols);
  });
}

Result<StoredMatrix> WeightIndex::flat_matrix(std::string_view name, std::int64_t rows, std::int64_t cols) {
  return with_memory_guard("look up a weight", name, [&]() -> Result<StoredMatrix> {
    FT_ASSIGN(const TensorView* tensor, need(name));
    TensorView flat = *tensor;
    std::int64_t rest = 1;
    for (std::size_t i = 1; i < flat.shape.size(); ++i) rest *= flat.shape[i];
    if (flat.shape.size() > 2 && flat.shape[0] == rows && rest == cols) flat.shape = {rows, cols};
    return plain(flat, rows, cols);
  });
}

Result<StoredMatrix> WeightIndex::vector(std::string_view name, std::int64_t n) {
  return with_memory_guard("look up a weight", name, [&]() -> Result<StoredMatrix> {
    FT_ASSIGN(const TensorView* tensor, need(name));
    return plain(*tensor, 1, n);
  });
}

Result<StoredMatrix> WeightIndex::made(const TensorView& tensor, std::int64_t rows, std::int64_t cols) const {
  if (!same_shape(tensor.shape, {rows, cols})) {
    return tensor_error(Code::kCorrupt, tensor.file, tensor.name, shape_text(std::vector{rows, cols}),
                        shape_text(tensor.shape), "the file does not fit its metadata: download it again");
  }
  StoredMatrix result;
  result.name = tensor.name, result.rows = rows, result.cols = cols, result.matrix = tensor.matrix;
  const std::optional<CodeFormat> codes = tensor.matrix->codes();
  result.quantised = codes.has_value();
  result.dtype = codes ? DType::kU32 : tensor.matrix->value_type();
  if (!codes) return result;
  result.bits = codes->q.bits, result.group = codes->q.group, result.mode = codes->q.mode;
  result.scale_dtype = codes->q.mode == QuantMode::kAffine  ? codes->scale_type
                       : codes->q.mode == QuantMode::kNvfp4 ? DType::kF8E4M3
                                                            : DType::kF8E8M0;
  return result;
}

Result<StoredMatrix> WeightIndex::plain(const TensorView& tensor, std::int64_t rows,
                                        std::int64_t cols) const {
  const std::vector<std::int64_t> wanted =
      rows == 1 ? std::vector<std::int64_t>{cols} : std::vector<std::int64_t>{rows, cols};
  if (!dtype_is_float(tensor.dtype)) {
    const bool packed = tensor.dtype == DType::kU32;
    return tensor_error(
        packed ? Code::kCorrupt : Code::kUnsupported, tensor.file, tensor.name,
        "F32, F16 or BF16 " + shape_text(wanted),
        std::string(dtype_name(tensor.dtype)) + (packed ? " without '.scales' next to it" : ""),
        packed ? kUnfit : "use a bf16 or an MLX version of the model");
  }
  if (!same_shape(tensor.shape, {rows, cols})) return shape_error(tensor, shape_text(wanted));
  StoredMatrix result;
  result.name = tensor.name;
  result.dtype = tensor.dtype;
  result.rows = rows;
  result.cols = cols;
  result.data = tensor.bytes.data();
  return result;
}

Result<StoredMatrix> WeightIndex::affine(const Stored& stored, std::int64_t rows, std::int64_t cols) {
  const TensorView &codes = *stored.codes, &scales = *stored.scales;
  const TensorView* biases = stored.biases;
  if (biases == nullptr) {
    return tensor_error(Code::kCorrupt, codes.file, codes.name, "'.scales' and '.biases' next to it",
                        "only '.scales'", kUnfit);
  }
  if (codes.dtype != DType::kU32 || codes.shape.size() != 2 || codes.shape[0] != rows) {
    return shape_error(codes, "U32 [" + std::to_string(rows) + ",packed columns]");
  }
  if (!dtype_is_float(scales.dtype) || scales.shape.size() != 2 || scales.shape[0] != rows) {
    return shape_error(scales, "F32, F16 or BF16 [" + std::to_string(rows) + ",groups]");
  }
  if (biases->dtype != scales.dtype || biases->shape != scales.shape) {
    return shape_error(
        *biases, std::string(dtype_name(scales.dtype)) + " " + shape_text(scales.shape) + " like its scales");
  }
  const std::optional<Quantisation> found = resolve_affine(cols, codes.shape[1], scales.shape[1]);
  if (!found) {
    return shape_error(codes, "2, 3, 4, 5, 6 or 8 bits of " + std::to_string(cols) +
                                  " columns in groups of 32, 64 or 128 (scales are " +
                                  shape_text(scales.shape) + ")");
  }
  compare_with_config(codes, *found);
  return StoredMatrix{codes.name,
                      codes.dtype,
                      true,
                      found->bits,
                      found->group,
                      rows,
                      cols,
                      codes.bytes.data(),
                      scales.bytes.data(),
                      biases->bytes.data(),
                      scales.dtype};
}

Result<StoredMatrix> WeightIndex::block_float(const Stored& stored, std::int64_t rows, std::int64_t cols) {
  const TensorView &codes = *stored.codes, &scales = *stored.scales;
  if (stored.biases != nullptr) {
    return tensor_error(Code::kCorrupt, codes.file, codes.name, "no '.biases' where scales are bytes", "them",
                        kUnfit);
  }
  if (codes.dtype != DType::kU32 || codes.shape.size() != 2 || codes.shape[0] != rows) {
    return shape_error(codes, "U32 [" + std::to_string(rows) + ",packed columns]");
  }
  if (scales.shape.size() != 2 || scales.shape[0] != rows) {
    return shape_error(scales, "bytes [" + std::to_string(rows) + ",groups]");
  }
  const std::optional<Quantisation> found = resolve_block_float(cols, codes.shape[1], scales.shape[1]);
  if (!found) {
    return shape_error(codes,
                       "mxfp4, mxfp8 or nvfp4 of " + std::to_string(cols) +
                           " columns (4 or 8 bits in groups of 32, 4 bits in groups of 16; scales are " +
                           shape_text(scales.shape) + ")");
  }
  compare_with_config(codes, *found);
  const DType scale_dtype = found->mode == QuantMode::kNvfp4 ? DType::kF8E4M3 : DType::kF8E8M0;
  return StoredMatrix{codes.name,         codes.dtype,         true,    found->bits, found->group, rows, cols,
                      codes.bytes.data(), scales.bytes.data(), nullptr, scale_dtype, found->mode};
}

/// Compares the config with the shapes: if they differ, the shapes win and a warning is recorded.
void WeightIndex::compare_with_config(const TensorView& codes, const Quantisation& found) {
  const std::optional<QuantClaim> own = layout_.quantisation.lookup(codes.name);
  // The MTP head may have other widths: the target's global values do not apply to a sidecar.
  if (!own && (is_mtp_name(codes.name) || !layout_.quantisation.global())) return;
  const QuantClaim claim = own ? *own : QuantClaim{true, *layout_.quantisation.global()};
  if (claim.quantised && claim.q == found) return;
  warn(codes.file + ": tensor " + in_quotes(codes.name) + ": " + layout_.config_path + " says " +
       (claim.quantised ? quantisation_text(claim.q) : "not quantised") + ", its shapes say " +
       quantisation_text(found) + "; using the shapes");
}

Result<bool> WeightIndex::head_is_tied() const {
  if (has("lm_head.weight")) return false;
  if (layout_.tied.value_or(true)) return true;
  return Error{Code::kNotFound,
               checkpoint_.directory() +
                   ": expected a tensor 'lm_head.weight', because config.json says "
                   "tie_word_embeddings false, found none; the checkpoint is incomplete: download it "
                   "again"};
}

}  // namespace ft::format
