#include "convert/foreign/modules.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ascii.h"
#include "convert/foreign/float_matrices.h"
#include "convert/foreign/grid_matrix.h"
#include "format/key_reader.h"

namespace ft::convert {
namespace {

using format::Checkpoint;
using format::DType;
using format::TensorView;

constexpr std::string_view kParts[] = {".weight_packed",
                                       ".weight_scale_inv",
                                       ".weight_scale_2",
                                       ".weight_scale",
                                       ".weight_global_scale",
                                       ".weight_zero_point",
                                       ".weight_shape",
                                       ".weight_g_idx",
                                       ".qweight",
                                       ".qzeros",
                                       ".scales",
                                       ".g_idx",
                                       ".input_scale",
                                       ".k_scale",
                                       ".v_scale",
                                       ".input_global_scale",
                                       ".weight"};
// A module with one of these belongs to a quantiser.
constexpr std::string_view kMarks[] = {".weight_packed", ".weight_scale_inv", ".weight_scale", ".qweight"};
constexpr std::int64_t kMaxSide = std::int64_t{1} << 40;

/// The tensors of one module by the ends of their names.
class Module {
 public:
  Module(std::string name, const ForeignConfig& config, bool float32_scales)
      : name_(std::move(name)), config_(config), float32_scales_(float32_scales) {}

  void add(std::string_view part, const TensorView& tensor) { parts_[std::string(part)] = &tensor; }
  bool has(const char* part) const { return parts_.contains(part); }
  bool is_quantised() const {
    return std::ranges::any_of(kMarks, [&](auto mark) { return parts_.contains(std::string(mark)); });
  }
  const std::map<std::string, const TensorView*>& parts() const { return parts_; }
  const std::string& name() const { return name_; }

  Result<SourceTensor> read() const {
    Result<format::MatrixPointer> matrix = read_matrix();
    if (!matrix.ok()) return matrix.error();
    std::vector<std::int64_t> shape = {(*matrix)->rows(), (*matrix)->cols()};
    if (has(".weight") && part(".weight").shape.size() == 3) {
      shape = {part(".weight").shape[0], part(".weight").shape[1], (*matrix)->cols()};
    }
    return SourceTensor{name_ + ".weight", std::move(shape), nullptr, std::move(*matrix)};
  }

 private:
  const TensorView& part(const char* end) const { return *parts_.at(end); }

  Error complain(const TensorView& tensor, const std::string& expected) const {
    return format::tensor_error(
        Code::kCorrupt, tensor.file, tensor.name, expected,
        std::string(format::dtype_name(tensor.dtype)) + " " + format::shape_text(tensor.shape),
        "download the model again");
  }
  Error refuse(const std::string& what) const {
    return Error{Code::kUnsupported,
                 name_ + ": " + what + " cannot be read; use another conversion of the model"};
  }

  Result<format::MatrixPointer> read_matrix() const {
    if (has(".qweight")) return config_.method == "awq" ? read_awq() : read_gptq();
    if (has(".weight_packed")) {
      return part(".weight_packed").dtype == DType::kU8 ? read_packed_floats() : read_packed_integers();
    }
    if (!has(".weight")) return refuse("a module without weights");
    if (part(".weight").dtype == DType::kU8) return read_packed_floats();
    if (part(".weight").dtype == DType::kF8E4M3) return read_fp8();
    return refuse("weights of " + std::string(format::dtype_name(part(".weight").dtype)));
  }

  static bool is_shape(const TensorView& tensor, std::int64_t rows, std::int64_t cols) {
    return tensor.shape.size() == 2 && tensor.shape[0] == rows && tensor.shape[1] == cols;
  }
  /// Two sides that cannot overflow a product.
  static bool is_matrix(const TensorView& tensor) {
    return tensor.shape.size() == 2 && tensor.shape[0] > 0 && tensor.shape[1] > 0 &&
           tensor.shape[0] < kMaxSide && tensor.shape[1] < kMaxSide;
  }

  Result<format::MatrixPointer> read_gptq() const;
  Result<format::MatrixPointer> read_awq() const;
  Result<format::MatrixPointer> read_awq_by_rows() const;
  Result<format::MatrixPointer> read_packed_integers() const;
  Result<format::MatrixPointer> read_packed_floats() const;
  Result<format::MatrixPointer> read_fp8() const;
  Result<float> read_factor(const char* end) const;

  std::string name_;
  const ForeignConfig& config_;
  bool float32_scales_;
  std::map<std::string, const TensorView*> parts_;
};

std::function<float(std::int64_t, std::int64_t)> scales_at(const TensorView& scales, std::int64_t row_step,
                                                           std::int64_t group_step) {
  const std::byte* data = scales.bytes.data();
  return [data, type = scales.dtype, row_step, group_step](std::int64_t row, std::int64_t group) {
    return format::load_float(data, type, static_cast<std::size_t>(row * row_step + group * group_step));
  };
}

/// The group of every column, if it is not simply column / group.
Result<std::vector<std::int64_t>> permuted_groups(const TensorView& index, std::int64_t cols,
                                                  std::int64_t group, std::int64_t groups) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(cols));
  bool plain = true;
  const bool fits = index.dtype == DType::kI32 && index.shape.size() == 1 && index.shape[0] == cols;
  for (std::int64_t i = 0; fits && i < cols; ++i) {
    std::int32_t value = 0;
    std::memcpy(&value, index.bytes.data() + i * 4, sizeof value);
    if (value < 0 || value >= groups) {
      return format::tensor_error(Code::kCorrupt, index.file, index.name,
                                  "groups from 0 to " + std::to_string(groups - 1), std::to_string(value),
                                  "download the model again");
    }
    list[static_cast<std::size_t>(i)] = value;
    plain = plain && value == i / group;
  }
  if (!fits) {
    return format::tensor_error(Code::kCorrupt, index.file, index.name, "I32 [" + std::to_string(cols) + "]",
                                format::shape_text(index.shape), "download the model again");
  }
  if (plain) list.clear();
  return list;
}

/// qweight [in * bits / 32, out], packed along in; qzeros [groups, out * bits / 32]; scales [groups, out].
Result<format::MatrixPointer> Module::read_gptq() const {
  const TensorView& codes = part(".qweight");
  const int bits = config_.bits;
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return refuse("GPTQ of " + std::to_string(bits) + " bits");
  if (!config_.version.empty() && config_.version != "gptq" && config_.version != "gptq_v2") {
    return refuse("GPTQ's layout '" + config_.version + "'");
  }
  if (!has(".scales") || !has(".qzeros")) return complain(codes, "'.scales' and '.qzeros' next to it");
  const TensorView &scales = part(".scales"), &zeros = part(".qzeros");
  if (codes.dtype != DType::kI32 || !is_matrix(codes) || codes.shape[0] * 32 % bits != 0)
    return complain(codes, "I32 [columns * bits / 32, rows]");
  GridLayout grid;
  grid.cols = codes.shape[0] * 32 / bits, grid.rows = codes.shape[1], grid.bits = bits;
  grid.group = config_.group <= 0 ? grid.cols : config_.group;
  const std::int64_t groups = (grid.cols + grid.group - 1) / grid.group;
  if (!format::dtype_is_float(scales.dtype) || !is_shape(scales, groups, grid.rows))
    return complain(scales, "floats [" + std::to_string(groups) + "," + std::to_string(grid.rows) + "]");
  if (zeros.dtype != DType::kI32 || !is_shape(zeros, groups, (grid.rows * bits + 31) / 32))
    return complain(zeros, "I32 [groups, rows * bits / 32]");
  if (has(".g_idx")) {
    FT_ASSIGN(grid.group_of_column, permuted_groups(part(".g_idx"), grid.cols, grid.group, groups));
  }
  grid.scale_type = scales.dtype, grid.float32_scales = float32_scales_;
  grid.scale = scales_at(scales, 1, grid.rows);
  const std::byte* words = codes.bytes.data();
  grid.unpack_row = [words, bits, rows = grid.rows, cols = grid.cols](std::int64_t row, std::uint8_t* out) {
    const BitStream stream{words + row * 4, rows, bits};
    for (std::int64_t col = 0; col < cols; ++col) out[col] = static_cast<std::uint8_t>(stream.at(col));
  };
  const bool stored_less_one = config_.version != "gptq_v2";
  std::uint32_t ones = 0;
  for (int bit = 0; bits != 3 && bit < 32; bit += bits) ones |= 1U << bit;
  grid.zero = [data = zeros.bytes.data(), step = zeros.shape[1], bits, stored_less_one, ones](
                  std::int64_t row, std::int64_t group) {
    BitStream stream{data + group * step * 4, 1, bits};
    if (stored_less_one) stream.added_to_words = ones, stream.added_to_values = bits == 3 ? 1 : 0;
    return stream.at(row);
  };
  return grid_matrix(std::move(grid));
}

/// qweight [in, out / 8], qzeros [groups, out / 8], scales [groups, out]; nibbles in AutoAWQ's order.
Result<format::MatrixPointer> Module::read_awq() const {
  if (config_.bits != 4) return refuse("AWQ of " + std::to_string(config_.bits) + " bits");
  if (config_.version == "gemv") return read_awq_by_rows();
  if (!config_.version.empty() && config_.version != "gemm")
    return refuse("AWQ's layout '" + config_.version + "'");
  const TensorView& codes = part(".qweight");
  if (!has(".scales") || !has(".qzeros")) return complain(codes, "'.scales' and '.qzeros' next to it");
  const TensorView &scales = part(".scales"), &zeros = part(".qzeros");
  if (codes.dtype != DType::kI32 || !is_matrix(codes)) return complain(codes, "I32 [columns, rows / 8]");
  GridLayout grid;
  grid.cols = codes.shape[0], grid.rows = codes.shape[1] * 8;
  grid.group = config_.group <= 0 ? grid.cols : config_.group;
  const std::int64_t groups = (grid.cols + grid.group - 1) / grid.group, words = codes.shape[1];
  if (!format::dtype_is_float(scales.dtype) || !is_shape(scales, groups, grid.rows))
    return complain(scales, "floats [" + std::to_string(groups) + "," + std::to_string(grid.rows) + "]");
  if (zeros.dtype != DType::kI32 || !is_shape(zeros, groups, words))
    return complain(zeros, "I32 [groups, rows / 8]");
  grid.scale_type = scales.dtype, grid.float32_scales = float32_scales_;
  grid.scale = scales_at(scales, 1, grid.rows);
  const auto nibble = [](const std::byte* data, std::int64_t word, std::int64_t row) {
    constexpr std::array<int, 8> kPlace = {0, 4, 1, 5, 2, 6, 3, 7};
    std::uint32_t bits = 0;
    std::memcpy(&bits, data + word * 4, sizeof bits);
    return (bits >> (4 * kPlace[static_cast<std::size_t>(row % 8)])) & 15U;
  };
  grid.unpack_row = [nibble, words, data = codes.bytes.data(), cols = grid.cols](std::int64_t row,
                                                                                 std::uint8_t* out) {
    for (std::int64_t col = 0; col < cols; ++col)
      out[col] = static_cast<std::uint8_t>(nibble(data, col * words + row / 8, row));
  };
  grid.zero = [nibble, words, data = zeros.bytes.data()](std::int64_t row, std::int64_t group) {
    return nibble(data, group * words + row / 8, row);
  };
  return grid_matrix(std::move(grid));
}

/// AutoAWQ's gemv: qweight [out, in / 8] in plain order; qzeros [out, words], scales [out, 8 * words].
Result<format::MatrixPointer> Module::read_awq_by_rows() const {
  const TensorView& codes = part(".qweight");
  if (!has(".scales") || !has(".qzeros")) return complain(codes, "'.scales' and '.qzeros' next to it");
  const TensorView &scales = part(".scales"), &zeros = part(".qzeros");
  if (codes.dtype != DType::kI32 || !is_matrix(codes)) return complain(codes, "I32 [rows, columns / 8]");
  GridLayout grid;
  grid.rows = codes.shape[0], grid.cols = codes.shape[1] * 8;
  grid.group = config_.group <= 0 ? grid.cols : config_.group;
  const std::int64_t groups = (grid.cols + grid.group - 1) / grid.group;
  if (zeros.dtype != DType::kI32 || !is_matrix(zeros) || zeros.shape[0] != grid.rows ||
      zeros.shape[1] * 8 < groups)
    return complain(zeros, "I32 [rows, groups / 8]");
  if (!format::dtype_is_float(scales.dtype) || !is_matrix(scales) || scales.shape[0] != grid.rows ||
      scales.shape[1] < groups) {
    return complain(scales, "floats [rows, groups]");
  }
  grid.scale_type = scales.dtype, grid.float32_scales = float32_scales_;
  grid.scale = scales_at(scales, scales.shape[1], 1);
  grid.unpack_row = [data = codes.bytes.data(), words = codes.shape[1], cols = grid.cols](std::int64_t row,
                                                                                          std::uint8_t* out) {
    format::unpack_codes(data + row * words * 4, 4, cols, out);
  };
  grid.zero = [data = zeros.bytes.data(), words = zeros.shape[1]](std::int64_t row, std::int64_t group) {
    return BitStream{data + row * words * 4, 1, 4}.at(group);
  };
  return grid_matrix(std::move(grid));
}

/// compressed-tensors: weight_packed I32 [out, words], weight_scale [out, groups], zero points packed along
/// out.
Result<format::MatrixPointer> Module::read_packed_integers() const {
  const TensorView& codes = part(".weight_packed");
  if (!has(".weight_scale")) return complain(codes, "'.weight_scale' next to it");
  const TensorView& scales = part(".weight_scale");
  if (codes.dtype != DType::kI32 || !is_matrix(codes)) return complain(codes, "I32 [rows, words]");
  GridLayout grid;
  grid.bits = config_.bits, grid.rows = codes.shape[0];
  const int per_word = 32 / grid.bits;
  grid.cols = codes.shape[1] * 32 / grid.bits;
  if (has(".weight_shape")) {
    const TensorView& shape = part(".weight_shape");
    if (shape.bytes.size() != 16 || shape.dtype != DType::kI64) return complain(shape, "I64 [2]");
    std::memcpy(&grid.cols, shape.bytes.data() + 8, sizeof grid.cols);
  }
  const bool fits_side = grid.cols > 0 && grid.cols < kMaxSide;
  const bool dense = fits_side && (grid.cols * grid.bits + 31) / 32 == codes.shape[1];
  if (!fits_side || (!dense && (grid.cols + per_word - 1) / per_word != codes.shape[1]))
    return complain(codes, "words for " + std::to_string(grid.cols) + " columns of " +
                               std::to_string(grid.bits) + " bits");
  if (!format::dtype_is_float(scales.dtype) || !is_matrix(scales) || scales.shape[0] != grid.rows ||
      grid.cols % scales.shape[1] != 0) {
    return complain(scales, "floats [" + std::to_string(grid.rows) + ", groups]");
  }
  const std::int64_t groups = scales.shape[1];
  grid.group = grid.cols / groups, grid.scale_type = scales.dtype, grid.float32_scales = float32_scales_;
  grid.scale = scales_at(scales, groups, 1);
  const BitStream stream{codes.bytes.data(), 1, grid.bits, dense ? 0 : per_word};
  grid.unpack_row = [stream, words = codes.shape[1], cols = grid.cols](std::int64_t row, std::uint8_t* out) {
    BitStream of_row = stream;
    of_row.words += row * words * 4;
    for (std::int64_t col = 0; col < cols; ++col) out[col] = static_cast<std::uint8_t>(of_row.at(col));
  };
  if (has(".weight_g_idx")) {
    FT_ASSIGN(grid.group_of_column, permuted_groups(part(".weight_g_idx"), grid.cols, grid.group, groups));
  }
  if (has(".weight_zero_point")) {
    const TensorView& zeros = part(".weight_zero_point");
    const std::int64_t words =
        dense ? (grid.rows * grid.bits + 31) / 32 : (grid.rows + per_word - 1) / per_word;
    if (zeros.dtype != DType::kI32 || !is_shape(zeros, words, groups))
      return complain(zeros, "I32 [words, groups]");
    grid.zero = [data = zeros.bytes.data(), groups, bits = grid.bits, per = dense ? 0 : per_word](
                    std::int64_t row, std::int64_t group) {
      return BitStream{data + group * 4, groups, bits, per}.at(row);
    };
  }
  return grid_matrix(std::move(grid));
}

Result<float> Module::read_factor(const char* end) const {
  const TensorView& tensor = part(end);
  if (tensor.dtype != DType::kF32 || tensor.bytes.size() != sizeof(float)) return complain(tensor, "one F32");
  const float factor = format::load_float(tensor.bytes.data(), DType::kF32, 0);
  if (!(factor > 0) || factor > 3e38F) return complain(tensor, "a positive factor");
  return factor;
}

/// NVFP4 of compressed-tensors and ModelOpt, and MXFP4: bytes [out, in / 2] and a scale byte a group.
Result<format::MatrixPointer> Module::read_packed_floats() const {
  const TensorView& codes = part(has(".weight_packed") ? ".weight_packed" : ".weight");
  if (!has(".weight_scale")) return complain(codes, "'.weight_scale' next to it");
  const TensorView& scales = part(".weight_scale");
  if (!is_matrix(codes)) return complain(codes, "U8 [rows, columns / 2]");
  const std::int64_t rows = codes.shape[0], cols = codes.shape[1] * 2;
  if (scales.dtype == DType::kF8E4M3) {
    if (cols % 16 != 0 || !is_shape(scales, rows, cols / 16))
      return complain(scales, "F8_E4M3 [rows, columns / 16]");
    Nvfp4Layout layout{rows, cols, codes.bytes.data(), scales.bytes.data()};
    if (has(".weight_global_scale")) {
      FT_ASSIGN(layout.factor, read_factor(".weight_global_scale"));
      layout.divides = true;
    } else if (has(".weight_scale_2")) {
      FT_ASSIGN(layout.factor, read_factor(".weight_scale_2"));
    }
    return nvfp4_matrix(layout);
  }
  const bool bytes = scales.dtype == DType::kU8 || scales.dtype == DType::kF8E8M0;
  if (!bytes || cols % 32 != 0 || !is_shape(scales, rows, cols / 32))
    return complain(scales, "F8_E4M3 [rows, columns / 16] or U8 [rows, columns / 32]");
  format::StoredMatrix matrix{codes.name, DType::kU32, true, 4, 32, rows, cols};
  matrix.data = codes.bytes.data(), matrix.scales = scales.bytes.data();
  matrix.scale_dtype = DType::kU8, matrix.mode = format::QuantMode::kMxfp4;
  return format::mlx_matrix(matrix);
}

/// weight e4m3 [.., out, in] and scales of blocks, rows, the whole tensor, or (bytes) of 32 columns.
Result<format::MatrixPointer> Module::read_fp8() const {
  const TensorView& codes = part(".weight");
  const bool inverse = has(".weight_scale_inv");
  if (!inverse && !has(".weight_scale")) return complain(codes, "'.weight_scale' next to it");
  const TensorView& scales = part(inverse ? ".weight_scale_inv" : ".weight_scale");
  if (codes.shape.size() < 2 || codes.shape.size() > 3 || codes.bytes.empty())
    return complain(codes, "a matrix");
  const std::int64_t rows = rows_of(codes.shape), cols = codes.shape.back();
  const auto count = static_cast<std::int64_t>(scales.bytes.size() / format::dtype_bytes(scales.dtype));
  if (scales.dtype == DType::kU8 || scales.dtype == DType::kF8E8M0) {
    if (cols % 32 != 0 || count != rows * (cols / 32)) return complain(scales, "U8 [rows, columns / 32]");
    format::StoredMatrix matrix{codes.name, DType::kU32, true, 8, 32, rows, cols};
    matrix.data = codes.bytes.data(), matrix.scales = scales.bytes.data();
    matrix.scale_dtype = DType::kU8, matrix.mode = format::QuantMode::kMxfp8;
    return format::mlx_matrix(matrix);
  }
  if (!format::dtype_is_float(scales.dtype)) return complain(scales, "scales of floats");
  Fp8Layout layout{rows, cols, codes.bytes.data(), scales.bytes.data(), scales.dtype, rows, cols};
  const auto blocks = [](std::int64_t side, std::int64_t block) { return (side + block - 1) / block; };
  if (count == rows && rows > 1 && (scales.shape.size() < 2 || scales.shape.back() == 1)) {
    layout.block_rows = 1;
  } else if (count != 1) {
    layout.block_rows = config_.block_rows, layout.block_cols = config_.block_cols;
    const std::int64_t inner = codes.shape[codes.shape.size() - 2];
    if (rows != inner && inner % layout.block_rows != 0) return refuse("experts that blocks do not divide");
    if (count != blocks(rows, layout.block_rows) * blocks(cols, layout.block_cols))
      return complain(scales, "a scale for each block of " + std::to_string(layout.block_rows) + " x " +
                                  std::to_string(layout.block_cols));
  }
  return fp8_matrix(layout);
}

/// The module and the part of a name; no part: the tensor does not belong to a known quantiser.
std::pair<std::string, std::string_view> split(const std::string& name) {
  for (const std::string_view part : kParts) {
    if (name.ends_with(part)) return {name.substr(0, name.size() - part.size()), part};
  }
  return {name, {}};
}

}  // namespace

Result<ForeignConfig> read_foreign_config(const nlohmann::json& config, const std::string& origin) {
  ForeignConfig found;
  const nlohmann::json* section = nullptr;
  for (const nlohmann::json* level :
       {&config, config.contains("text_config") ? &config["text_config"] : &config}) {
    if (section == nullptr && level->is_object() && level->contains("quantization_config"))
      section = &(*level)["quantization_config"];
  }
  if (section == nullptr || !section->is_object()) return found;
  format::KeyReader reader(*section, origin + ": quantization_config");
  found.method = reader.text("quant_method", "");
  found.bits = reader.whole("bits", 4, 1, 8);
  found.group = reader.whole64("group_size", 128, -1, std::int64_t{1} << 30);
  found.version = lower(reader.text(found.method == "gptq" ? "checkpoint_format" : "version", ""));
  if (const nlohmann::json* block = reader.find("weight_block_size"); block != nullptr) {
    const bool good = block->is_array() && block->size() == 2 && (*block)[0].is_number_unsigned() &&
                      (*block)[1].is_number_unsigned();
    if (good)
      found.block_rows = (*block)[0].get<std::int64_t>(), found.block_cols = (*block)[1].get<std::int64_t>();
    if (!good || found.block_rows < 1 || found.block_cols < 1 || found.block_rows > 65536 ||
        found.block_cols > 65536)
      reader.fail("weight_block_size", "two numbers from 1 to 65536", block);
  }
  if (const nlohmann::json* groups = reader.find("config_groups"); groups != nullptr && groups->is_object()) {
    for (const auto& [name, group] : groups->items()) {
      if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object()) continue;
      std::string place = origin;
      place.append(": config_groups: ").append(name).append(": weights");
      format::KeyReader weights(group["weights"], place);
      found.bits = weights.whole("num_bits", found.bits, 1, 8);
      FT_TRY(weights.status());
      break;
    }
  }
  FT_TRY(reader.status());
  return found;
}

bool has_foreign_parts(const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [](const TensorView& tensor) {
    const std::string_view end = split(tensor.name).second;
    return std::ranges::find(kMarks, end) != std::end(kMarks);
  });
}

Result<std::vector<SourceTensor>> read_foreign(const Checkpoint& checkpoint, const ForeignConfig& config,
                                               bool float32_scales) {
  std::map<std::string, Module> modules;
  std::vector<SourceTensor> list;
  const auto add_plain = [&](const TensorView& tensor) {
    SourceTensor entry{tensor.name, tensor.shape, &tensor, nullptr};
    if (format::dtype_is_float(tensor.dtype) && !tensor.shape.empty())
      entry.matrix = format::plain_matrix(tensor);
    list.push_back(std::move(entry));
  };
  for (const TensorView& tensor : checkpoint.tensors()) {
    const auto [name, end] = split(tensor.name);
    if (end.empty()) {
      add_plain(tensor);
      continue;
    }
    modules.try_emplace(name, name, config, float32_scales).first->second.add(end, tensor);
  }
  constexpr std::string_view kDropped[] = {".input_scale", ".k_scale", ".v_scale", ".input_global_scale"};
  for (const auto& [name, module] : modules) {
    if (module.is_quantised()) {
      FT_ASSIGN(SourceTensor tensor, module.read());
      list.push_back(std::move(tensor));
      continue;
    }
    for (const auto& [end, tensor] : module.parts()) {
      if (std::ranges::find(kDropped, end) == std::end(kDropped)) add_plain(*tensor);
    }
  }
  std::ranges::sort(list, {}, &SourceTensor::name);
  return list;
}

std::string foreign_format_name(const ForeignConfig& config) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"gptq", "GPTQ"},
      {"awq", "AWQ"},
      {"fp8", "FP8"},
      {"compressed-tensors", "compressed-tensors"},
      {"modelopt", "ModelOpt NVFP4"}};
  for (const auto& [method, name] : kNames) {
    if (config.method == method) return std::string(name);
  }
  return config.method.empty() ? "quantised tensors" : config.method;
}

}  // namespace ft::convert
