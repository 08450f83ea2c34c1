#include "backends/cuda/weights.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "backends/cuda/kernels/shared_layouts.cuh"
#include "backends/pinned_rows.h"
#include "backends/weight_rows.h"
#include "format/half.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kPieceBytes = 64 << 20;

std::int64_t bytes_of(const PackedMatrix& matrix) {
  if (matrix.kind.bits == 0) return matrix.outputs * matrix.padded * (matrix.kind.wide ? 4 : 2);
  const int record = matrix.kind.small_floats
                         ? kSmallFloatRecord
                         : record_bytes(matrix.kind.bits, matrix.kind.group, matrix.kind.scale_type);
  return matrix.outputs / kTileOutputs * matrix.groups() * record;
}

/// Distinguishes a matrix from all others. Its address alone does not, because random weights of many names
/// share memory.
std::string identity(const Weight& weight) {
  return fmt::format("{} {} {} {} {} {}x{} {} {} {};", weight.name, static_cast<const void*>(weight.data),
                     static_cast<const void*>(weight.from.get()), weight.from_row, format_name(weight.format),
                     weight.rows, weight.cols, weight.bits, weight.group, weight.offset);
}

std::string identity(const std::vector<const Weight*>& weights) {
  std::string all;
  for (const Weight* weight : weights) all += identity(*weight);
  return all;
}

}  // namespace

Result<WeightKind> kind_of(const Weight& weight) {
  if (weight.format == Format::kAffine) {
    if (weight.group != 16 && weight.group != 32 && weight.group != 64 && weight.group != 128) {
      return Error{Code::kUnsupported,
                   fmt::format("cuda backend: {} has groups of {}; it takes 16, 32, 64 and 128", weight.name,
                               weight.group)};
    }
    const bool bf16 = weight.scale_format == Format::kBf16, half = weight.scale_format == Format::kF16;
    const ScaleType scales = weight.group == kShortestGroup           ? kFloatScales
                             : bf16                                   ? kBf16Scales
                             : half && weight.group <= kStreamedGroup ? kHalfScales
                                                                      : kFloatScales;
    return WeightKind{weight.bits <= 4 ? 4 : 8, weight.group, scales};
  }
  if (weight.format == Format::kMxfp4 && weight.offset == 0)
    return WeightKind{4, kSmallFloatGroup, kBf16Scales, false, true};
  // A code of 4 or 8 bits times its scale has at most 8 significant bits.
  return WeightKind{0, 0, kBf16Scales,
                    weight.format == Format::kF32 || weight.format == Format::kF16 || weight.offset != 0};
}

Weight requantised_as(const Weight& weight, int max_weight_bits) {
  if (max_weight_bits == 0 || weight.stored_bits() <= max_weight_bits || weight.cols % 32 != 0) return weight;
  Weight reduced = weight;
  reduced.format = Format::kAffine;
  reduced.bits = max_weight_bits;
  reduced.group = weight.cols % 64 == 0 ? 64 : 32;
  reduced.scale_format = Format::kBf16;
  reduced.offset = 0;
  reduced.from = nullptr, reduced.from_row = 0;
  return reduced;
}

Weight WeightStore::reduced(const Weight& weight, int max_weight_bits) {
  Weight reduced = requantised_as(weight, max_weight_bits);
  if (reduced.format == weight.format && reduced.bits == weight.bits) return weight;
  format::AffineMatrix& matrix = reduced_[identity(weight)];
  if (matrix.words.empty()) {
    std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.cols));
    read_rows(weight, 0, weight.rows, values.data());
    matrix = format::quantise_affine(values, weight.rows, weight.cols, reduced.bits, reduced.group,
                                     format::DType::kBF16);
  }
  reduced.data = reinterpret_cast<const std::byte*>(matrix.words.data());
  reduced.scales = matrix.scales.data();
  reduced.biases = matrix.biases.data();
  return reduced;
}

Result<std::shared_ptr<PackedMatrix>> WeightStore::room(const Weight& weight, std::int64_t rows) {
  auto matrix = std::make_shared<PackedMatrix>();
  FT_ASSIGN(matrix->kind, kind_of(weight));
  matrix->cols = weight.cols;
  matrix->outputs = round_up(rows, kTileOutputs);
  matrix->padded = round_up(weight.cols, 8);
  matrix->memory = Memory(device_, static_cast<std::size_t>(bytes_of(*matrix)));
  if (matrix->memory.empty())
    return no_memory(*device_, "weights", bytes_of(*matrix),
                     "use a smaller model, one in fewer bits, or --backend cpu");
  if (matrix->kind.bits == 0) device_->clear(matrix->memory.at(), matrix->memory.bytes());  // padding rows
  return matrix;
}

Result<std::shared_ptr<const PackedMatrix>> WeightStore::matrix(const std::vector<const Weight*>& weights) {
  std::weak_ptr<const PackedMatrix>& known = known_[identity(weights)];
  if (std::shared_ptr<const PackedMatrix> there = known.lock()) return there;
  std::int64_t rows = 0;
  for (const Weight* weight : weights) rows += round_up(weight->rows, kTileOutputs);
  FT_ASSIGN(const std::shared_ptr<PackedMatrix> matrix, room(*weights[0], rows));
  std::int64_t first = 0;
  for (const Weight* weight : weights) {
    pack(*weight, first, *matrix);
    first += round_up(weight->rows, kTileOutputs);
  }
  known = matrix;
  return std::shared_ptr<const PackedMatrix>(matrix);
}

void WeightStore::pack(const Weight& weight, std::int64_t first, PackedMatrix& to) {
  if (to.kind.bits == 0) return pack_plain(weight, {}, 0, weight.rows, first, to);
  const std::int64_t row_bytes = row_data_bytes(weight), scale_bytes = row_scale_bytes(weight);
  const std::int64_t piece = std::max<std::int64_t>(
      kTileOutputs, kPieceBytes / (row_bytes + 2 * scale_bytes) / kTileOutputs * kTileOutputs);
  PinnedRows pinned;
  pinned.fit(weight, std::min(piece, weight.rows));
  for (std::int64_t row = 0; row < weight.rows; row += piece) {
    const Weight part = pinned.at(weight, row, std::min(piece, weight.rows - row));
    pack_piece(part, part.data, part.scales, part.biases, part.rows, first + row, to);
    if (weight.from != nullptr) device_->wait();  // the rows are made in the same memory again
  }
}

void WeightStore::pack_piece(const Weight& weight, const std::byte* codes, const std::byte* scales,
                             const std::byte* biases, std::int64_t rows, std::int64_t first,
                             PackedMatrix& to) {
  const std::int64_t code_bytes = rows * (weight.cols * weight.bits / 8);
  const std::int64_t scale_bytes = rows * (weight.cols / weight.group) * element_bytes(weight.scale_format);
  const std::int64_t bias_bytes = weight.format == Format::kAffine ? scale_bytes : 0;
  const std::int64_t scales_at = round_up(code_bytes, 256),
                     biases_at = scales_at + round_up(scale_bytes, 256);
  const auto staging_bytes = static_cast<std::size_t>(biases_at + round_up(bias_bytes, 256));
  if (raw_.bytes() < staging_bytes) {
    device_->wait();  // the piece before may still be read
    raw_ = {};
    raw_ = Memory(device_, staging_bytes);
    if (raw_.empty())
      throw DeviceError(no_memory(*device_, "weights in passing", static_cast<std::int64_t>(staging_bytes),
                                  "use a smaller model")
                            .message);
  }
  device_->copy_in(raw_.at(), codes, static_cast<std::size_t>(code_bytes));
  device_->copy_in(raw_.at(scales_at), scales, static_cast<std::size_t>(scale_bytes));
  if (bias_bytes > 0) device_->copy_in(raw_.at(biases_at), biases, static_cast<std::size_t>(bias_bytes));
  PackArgs args{};
  args.raw = raw_.at<unsigned char>();
  args.scales = raw_.at<unsigned char>(scales_at);
  args.biases = raw_.at<unsigned char>(biases_at);
  args.records = to.memory.at<unsigned char>();
  args.row_bytes = weight.cols * weight.bits / 8;
  args.rows = static_cast<int>(rows);
  args.cols = static_cast<int>(weight.cols);
  args.first_tile = static_cast<int>(first / kTileOutputs);
  args.tiles = parts_of(rows, kTileOutputs);
  args.raw_bits = weight.bits;
  args.bits = to.kind.bits;
  args.group = weight.group;
  args.scale_bytes = element_bytes(weight.scale_format);
  args.scale_half = weight.scale_format == Format::kF16 ? 1 : 0;
  args.scale_type = to.kind.scale_type;
  const char* const kernel = to.kind.small_floats ? "pack_small_floats" : "pack";
  device_->launch({kernel, {parts_of(std::int64_t{args.tiles} * to.groups(), 8)}, 256, 0, false}, &args);
}

void WeightStore::pack_plain(const Weight& weight, std::span<const std::int32_t> ids, std::int64_t from,
                             std::int64_t rows, std::int64_t first, PackedMatrix& to) {
  const std::int64_t element = to.kind.wide ? 4 : 2, line_bytes = to.padded * element;
  const std::int64_t piece = std::max<std::int64_t>(1, kPieceBytes / line_bytes);
  std::vector<float> line(static_cast<std::size_t>(weight.cols));
  for (std::int64_t done = 0; done < rows; done += piece) {
    const std::int64_t count = std::min(piece, rows - done);
    std::vector<std::byte> out(static_cast<std::size_t>(count * line_bytes));
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t row = ids.empty() ? from + done + r : ids[static_cast<std::size_t>(done + r)];
      read_rows(weight, row, 1, line.data());
      std::byte* at = out.data() + r * line_bytes;
      for (std::int64_t i = 0; i < weight.cols; ++i) {
        const std::uint16_t narrow = format::float_to_bf16(line[static_cast<std::size_t>(i)]);
        std::memcpy(at + i * element,
                    to.kind.wide ? static_cast<const void*>(&line[static_cast<std::size_t>(i)])
                                 : static_cast<const void*>(&narrow),
                    static_cast<std::size_t>(element));
      }
    }
    device_->copy_in(to.memory.at((first + done) * line_bytes), out.data(), out.size());
    device_->wait();
  }
}

void WeightStore::pack_rows(const Weight& weight, std::span<const std::int32_t> ids, std::int64_t first,
                            PackedMatrix& to) {
  if (to.kind.bits == 0) return pack_plain(weight, ids, 0, static_cast<std::int64_t>(ids.size()), first, to);
  if (weight.from != nullptr) {
    PinnedRows made;
    made.fit(weight, std::ssize(ids));
    for (std::int64_t i = 0; i < std::ssize(ids); ++i) made.put(weight, ids[static_cast<std::size_t>(i)], i);
    const Weight part = made.collected(weight, std::ssize(ids));
    pack_piece(part, part.data, part.scales, part.biases, part.rows, first, to);
    device_->wait();  // the rows end here
    return;
  }
  const auto gather = [&](const std::byte* from, std::int64_t row_bytes) {
    std::vector<std::byte> rows(ids.size() * static_cast<std::size_t>(row_bytes));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(rows.data() + i * static_cast<std::size_t>(row_bytes), from + ids[i] * row_bytes,
                  static_cast<std::size_t>(row_bytes));
    }
    return rows;
  };
  const std::int64_t scale_bytes = weight.cols / weight.group * element_bytes(weight.scale_format);
  const auto codes = gather(weight.data, weight.cols * weight.bits / 8);
  const auto scales = gather(weight.scales, scale_bytes);
  const auto biases = gather(weight.biases, weight.format == Format::kAffine ? scale_bytes : 0);
  pack_piece(weight, codes.data(), scales.data(), biases.data(), static_cast<std::int64_t>(ids.size()), first,
             to);
  device_->wait();  // the vectors end here
}

Result<Memory> WeightStore::upload(const void* from, std::size_t bytes) {
  Memory memory(device_, bytes);
  if (memory.empty())
    return no_memory(*device_, "weights", static_cast<std::int64_t>(bytes), "use a smaller model");
  device_->copy_in(memory.at(), from, bytes);
  device_->wait();
  return memory;
}

Result<Memory> WeightStore::floats(const Weight& weight) {
  if (weight.empty()) return Memory();
  std::vector<float> values(static_cast<std::size_t>(round_up(weight.rows * weight.cols, 16)));
  read_rows(weight, 0, weight.rows, values.data());
  return upload(values.data(), values.size() * sizeof(float));
}

}  // namespace ft::cuda
