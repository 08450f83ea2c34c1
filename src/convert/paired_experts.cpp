#include "convert/paired_experts.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace ft::convert {
namespace {

using format::Checkpoint;
using format::DType;
using format::MatrixPointer;
using format::StoredMatrix;
using format::TensorView;

constexpr std::string_view kStack = ".mlp.experts.";
constexpr std::int64_t kMxfp4Group = 32;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

/// The stacks of one projection, "gate_up_proj" or "down_proj".
class PairedExperts {
 public:
  PairedExperts(const Checkpoint& checkpoint, std::vector<SourceTensor>& to)
      : checkpoint_(checkpoint), to_(to) {}

  /// `module` ends in the projection; `part` is "_blocks", "_scales", "_bias" or empty.
  Status take(const SourceTensor& tensor, const std::string& module, std::string_view part) {
    const TensorView& stored = *tensor.stored;
    if (part == "_scales") {  // read with its blocks
      return checkpoint_.find(module + "_blocks") != nullptr ? Status() : unfit(stored, "blocks next to it");
    }
    const std::size_t sides = part == "_blocks" ? 4 : part == "_bias" ? 2 : 3;
    std::int64_t elements = 1;
    bool good = stored.shape.size() == sides;
    for (const std::int64_t side : stored.shape) {
      good = good && side > 0 && elements <= kMaxElements / side;
      if (good) elements *= side;
    }
    if (!good) return unfit(stored, std::to_string(sides) + " sides");
    if (part == "_blocks") return blocks(stored, module);
    if (!format::dtype_is_float(stored.dtype)) return unfit(stored, "floats");
    return part == "_bias" ? bias(tensor, module) : turned(stored, module);
  }

 private:
  static bool is_pair(const std::string& module) { return module.ends_with("gate_up_proj"); }

  static Error unfit(const TensorView& stored, const std::string& expected) {
    return format::tensor_error(
        Code::kCorrupt, stored.file, stored.name, expected,
        std::string(format::dtype_name(stored.dtype)) + " " + format::shape_text(stored.shape),
        "download the model again");
  }

  Status blocks(const TensorView& codes, const std::string& module) {
    const TensorView* scales = checkpoint_.find(module + "_scales");
    const auto& shape = codes.shape;
    if (codes.dtype != DType::kU8 || shape[3] != kMxfp4Group / 2)
      return unfit(codes, "U8 [experts, rows, groups, 16]");
    if (scales == nullptr) return unfit(codes, "scales next to it");
    if (scales->dtype != DType::kU8 || scales->shape != std::vector(shape.begin(), shape.end() - 1))
      return unfit(*scales, "U8 [experts, rows, groups] as its blocks");
    StoredMatrix whole;
    whole.name = codes.name, whole.dtype = DType::kU32, whole.quantised = true;
    whole.bits = 4, whole.group = kMxfp4Group, whole.mode = format::QuantMode::kMxfp4;
    whole.rows = shape[0] * shape[1], whole.cols = shape[2] * kMxfp4Group;
    whole.data = codes.bytes.data(), whole.scales = scales->bytes.data(), whole.scale_dtype = DType::kF8E8M0;
    return divide(codes, module, ".weight", format::mlx_matrix(whole), {shape[0], shape[1], whole.cols});
  }

  Status bias(const SourceTensor& tensor, const std::string& module) {
    const auto& shape = tensor.stored->shape;
    if (!is_pair(module)) {
      to_.push_back({module + ".bias", shape, tensor.stored, tensor.matrix});
      return {};
    }
    TensorView column = *tensor.stored;
    column.shape = {shape[0] * shape[1], 1};
    return divide(*tensor.stored, module, ".bias", format::plain_matrix(column), shape);
  }

  /// [experts, columns, rows]
  Status turned(const TensorView& stored, const std::string& module) {
    const auto& shape = stored.shape;
    const auto add = [&](const std::string& name, std::int64_t step, std::int64_t first) {
      const std::int64_t rows = shape[2] / step;
      to_.push_back({name,
                     {shape[0], rows, shape[1]},
                     nullptr,
                     format::turned_rows(stored, shape[0] * rows, step, first)});
    };
    if (!is_pair(module)) {
      add(module + ".weight", 1, 0);
      return {};
    }
    if (shape[2] % 2 != 0) return unfit(stored, "an even number of rows");
    for (const bool up : {false, true}) add(name_of(module, up) + ".weight", 2, up ? 1 : 0);
    return {};
  }

  /// `shape`: [experts, rows] and, for a matrix, columns.
  Status divide(const TensorView& stored, const std::string& module, const std::string& end,
                MatrixPointer whole, std::vector<std::int64_t> shape) {
    if (!is_pair(module)) {
      to_.push_back({module + end, std::move(shape), nullptr, std::move(whole)});
      return {};
    }
    if (shape[1] % 2 != 0) return unfit(stored, "an even number of rows");
    shape[1] /= 2;
    for (const bool up : {false, true}) {
      to_.push_back({name_of(module, up) + end, shape, nullptr,
                     format::row_blocks(whole, shape[0] * shape[1], 1, 2, up ? 1 : 0)});
    }
    return {};
  }

  static std::string name_of(const std::string& module, bool up) {
    return module.substr(0, module.size() - std::string_view("gate_up_proj").size()) +
           (up ? "up_proj" : "gate_proj");
  }

  const Checkpoint& checkpoint_;
  std::vector<SourceTensor>& to_;
};

}  // namespace

Status divide_paired_experts(const Checkpoint& checkpoint, std::vector<SourceTensor>& tensors) {
  std::vector<SourceTensor> divided;
  PairedExperts experts(checkpoint, divided);
  for (SourceTensor& tensor : tensors) {
    const std::size_t at = tensor.name.find(kStack);
    bool taken = false;
    for (const std::string_view projection : {"gate_up_proj", "down_proj"}) {
      if (at == std::string::npos || tensor.stored == nullptr) break;
      const std::string_view leaf = std::string_view(tensor.name).substr(at + kStack.size());
      if (!leaf.starts_with(projection)) continue;
      const std::string_view part = leaf.substr(projection.size());
      constexpr std::string_view kParts[] = {"", "_blocks", "_scales", "_bias"};
      if (std::ranges::find(kParts, part) == std::end(kParts)) continue;
      FT_TRY(experts.take(tensor, tensor.name.substr(0, tensor.name.size() - part.size()), part));
      taken = true;
    }
    if (!taken) divided.push_back(std::move(tensor));
  }
  std::ranges::sort(divided, {}, &SourceTensor::name);
  tensors = std::move(divided);
  return {};
}

}  // namespace ft::convert
