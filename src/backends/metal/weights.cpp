#include "backends/metal/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "backends/weight_rows.h"

namespace ft::metal {
namespace {

constexpr std::int64_t kWeightTile = 32;
constexpr int kCopyThreads = 256;                                         // of a threadgroup
constexpr unsigned kNone = 0, kPairBf16 = 1, kPairF16 = 2, kPairF32 = 3;  // as in kernels/linear.h

std::string kernel_suffix(const Weight& weight) {
  switch (weight.format) {
    case Format::kAffine:
      return "affine" + std::to_string(weight.bits);
    case Format::kBf16:
      return "bf16";
    case Format::kF16:
      return "f16";
    case Format::kMxfp8:
      return "fp8";
    case Format::kMxfp4:
    case Format::kNvfp4:
      return "fp4";
    default:
      return "f32";
  }
}

MatrixKernels kernels_of(const Device& device, const std::string& suffix) {
  const auto find = [&](const char* name) { return device.kernel(std::string(name) + "_" + suffix); };
  return {find("linear_few1"), find("linear_few2"),   find("linear_few4"), find("linear_few8"),
          find("linear_many"), find("linear_routed"), find("embed_rows")};
}

unsigned scale_kind(const Weight& weight) {
  if (weight.group == 0) return kNone;
  if (weight.format == Format::kAffine && weight.scale_format == Format::kBf16) return kPairBf16;
  if (weight.format == Format::kAffine && weight.scale_format == Format::kF16) return kPairF16;
  return kPairF32;
}

/// The values of consecutive scales from number `at` on.
void read_scales(const Weight& weight, const std::byte* from, std::size_t at, std::span<float> out) {
  Weight line;
  line.format = weight.scale_format;
  line.rows = 1;
  line.cols = std::ssize(out);
  line.data = from + at * static_cast<std::size_t>(element_bytes(weight.scale_format));
  read_rows(line, 0, 1, out.data());
}

std::int64_t groups_of(const PackedMatrix& packed) { return (packed.cols + packed.group - 1) / packed.group; }
std::int64_t chunks_of(const PackedMatrix& packed) { return (packed.cols + kWeightTile - 1) / kWeightTile; }

struct Output {
  std::size_t matrix, tile, lane;
};

void pack_codes(const Weight& weight, std::int64_t from, PackedMatrix& packed, Output to) {
  const auto bits = static_cast<std::size_t>(packed.bits);
  const std::size_t row_bytes = static_cast<std::size_t>(packed.cols) * bits / 8;
  const std::byte* in = weight.data + static_cast<std::size_t>(from) * row_bytes;
  const auto words = static_cast<std::size_t>(chunks_of(packed)) * bits;
  std::uint32_t* out = packed.codes.as<std::uint32_t>() + to.matrix * packed.codes_each +
                       to.tile * words * kWeightTile + to.lane;
  for (std::size_t w = 0; w < words && w * 4 < row_bytes; ++w) {
    std::uint32_t word = 0;
    std::memcpy(&word, in + w * 4, std::min<std::size_t>(4, row_bytes - w * 4));
    out[w * kWeightTile] = word;
  }
}

void pack_scales(const Weight& weight, std::int64_t from, PackedMatrix& packed, Output to) {
  if (packed.scale_kind == kNone) return;
  const auto groups = static_cast<std::size_t>(groups_of(packed));
  const std::size_t width = packed.scale_kind == kPairF32 ? 2 : 1;
  std::uint32_t* out = packed.scales.as<std::uint32_t>() + to.matrix * packed.scales_each +
                       to.tile * groups * width * kWeightTile + to.lane;
  if (packed.scale_kind != kPairF32) {
    const std::size_t at = static_cast<std::size_t>(from) * groups * 2;
    for (std::size_t g = 0; g < groups; ++g) {
      std::uint16_t scale = 0, bias = 0;
      std::memcpy(&scale, weight.scales + at + g * 2, 2);
      std::memcpy(&bias, weight.biases + at + g * 2, 2);
      out[g * kWeightTile] = scale | static_cast<std::uint32_t>(bias) << 16;
    }
    return;
  }
  std::array<float, 64> scales{}, biases{};  // not on the heap: workers of a pool may not throw
  for (std::size_t g = 0; g < groups; g += scales.size()) {
    const std::size_t count = std::min(scales.size(), groups - g);
    const std::size_t at = static_cast<std::size_t>(from) * groups + g;
    read_scales(weight, weight.scales, at, std::span(scales).first(count));
    if (weight.biases != nullptr) read_scales(weight, weight.biases, at, std::span(biases).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(out + 2 * (g + i) * kWeightTile, &scales[i], 4);
      std::memcpy(out + (2 * (g + i) + 1) * kWeightTile, &biases[i], 4);
    }
  }
}

Result<PackedMatrix> room_for(const std::shared_ptr<Device>& device, const Weight& weight, std::int64_t rows,
                              std::size_t count) {
  FT_ASSIGN(PackedMatrix packed, plan_matrix(*device, weight, rows, count));
  FT_ASSIGN(packed.codes, Memory::make(device, packed.codes_bytes()));
  FT_ASSIGN(packed.scales, Memory::make(device, packed.scales_bytes()));
  return packed;
}

void pack_output(const Weight& weight, std::int64_t from, PackedMatrix& packed, std::int64_t to,
                 std::size_t matrix, PinnedRows& pinned) {
  const Output output{matrix, static_cast<std::size_t>(to / kWeightTile),
                      static_cast<std::size_t>(to % kWeightTile)};
  const Weight row = pinned.at(weight, from, 1);
  pack_codes(row, 0, packed, output);
  pack_scales(row, 0, packed, output);
}

/// Calls pack_one(row, pinned) for each of `rows`, shared among the workers by whole tiles. `weight`: one of
/// those that are packed; `pinned` has room for one of its rows.
template <class PackOne>
void share_rows(ThreadPool& pool, const Weight& weight, std::int64_t rows, const PackOne& pack_one) {
  const std::int64_t tiles = (rows + kWeightTile - 1) / kWeightTile;
  std::vector<PinnedRows> pinned(static_cast<std::size_t>(pool.workers()));
  for (PinnedRows& one : pinned) one.fit(weight, 1);
  auto work = [&](int worker, int workers) {
    const std::int64_t end = std::min(rows, tiles * (worker + 1) / workers * kWeightTile);
    for (std::int64_t row = tiles * worker / workers * kWeightTile; row < end; ++row)
      pack_one(row, pinned[static_cast<std::size_t>(worker)]);
  };
  pool.run(work);
}

}  // namespace

Result<PackedMatrix> plan_matrix(const Device& device, const Weight& weight, std::int64_t rows,
                                 std::size_t count) {
  PackedMatrix packed;
  packed.rows = rows, packed.cols = weight.cols, packed.count = count;
  packed.bits = static_cast<unsigned>(weight.stored_bits());
  if (weight.group > 0) packed.group = static_cast<unsigned>(weight.group);
  packed.scale_kind = scale_kind(weight);
  packed.affine = weight.format == Format::kAffine;
  packed.kernels = kernels_of(device, kernel_suffix(weight));
  const MatrixKernels& made = packed.kernels;
  for (const int kernel : {made.few1, made.few2, made.few4, made.few8, made.many, made.routed, made.embed}) {
    if (kernel >= 0 && device.max_threads(kernel) >= kCopyThreads) continue;
    return Error{Code::kUnsupported,
                 fmt::format("{} backend: {} makes no pipeline of a kernel for {} weights; use --backend cpu",
                             device.name(), device.describe(), kernel_suffix(weight))};
  }
  const auto tiles = static_cast<std::size_t>((rows + kWeightTile - 1) / kWeightTile);
  packed.codes_each = tiles * static_cast<std::size_t>(chunks_of(packed)) * packed.bits * kWeightTile;
  const std::size_t width = packed.scale_kind == kPairF32 ? 2 : 1;
  if (packed.scale_kind != kNone)
    packed.scales_each = tiles * static_cast<std::size_t>(groups_of(packed)) * width * kWeightTile;
  return packed;
}

void pack_row(const Weight& weight, std::int64_t from, PackedMatrix& packed, std::int64_t to,
              PinnedRows& pinned) {
  pack_output(weight, from, packed, to, 0, pinned);
}

Result<PackedMatrix> pack(const std::shared_ptr<Device>& device, ThreadPool& pool,
                          std::span<const Weight> weights) {
  const Weight& first = weights.front();
  FT_ASSIGN(PackedMatrix packed, room_for(device, first, first.rows, weights.size()));
  share_rows(pool, first, first.rows, [&](std::int64_t row, PinnedRows& pinned) {
    for (std::size_t i = 0; i < weights.size(); ++i) pack_output(weights[i], row, packed, row, i, pinned);
  });
  return packed;
}

Result<PackedMatrix> pack_rows(const std::shared_ptr<Device>& device, ThreadPool& pool, const Weight& weight,
                               std::span<const std::int32_t> ids, std::int64_t extra) {
  const std::int64_t rows = std::ssize(ids) + extra;
  FT_ASSIGN(PackedMatrix packed, room_for(device, weight, rows, 1));
  share_rows(pool, weight, std::ssize(ids), [&](std::int64_t row, PinnedRows& pinned) {
    pack_row(weight, ids[static_cast<std::size_t>(row)], packed, row, pinned);
  });
  return packed;
}

Result<Memory> pack_vector(const std::shared_ptr<Device>& device, const Weight& weight) {
  const auto count = weight.empty() ? std::size_t{1} : static_cast<std::size_t>(weight.rows * weight.cols);
  FT_ASSIGN(Memory memory, Memory::make(device, count * sizeof(float)));
  if (!weight.empty()) read_rows(weight, 0, weight.rows, memory.as<float>());
  return memory;
}

}  // namespace ft::metal
