#include "backends/cuda/half_kernels.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "backends/cuda/kernel_name.h"
#include "backends/cuda/kernels/hopper_kinds.h"

namespace ft::cuda {
namespace {

/// Names of kernels of all kinds: family, bits, group, ScaleType and one of `last`.
template <std::size_t Count>
class HalfNames {
 public:
  HalfNames(std::string_view family, const std::array<int, Count>& last) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::size_t group = 16U << (i / 3 % 4), bits = i < 12 ? 4 : 8;
      for (std::size_t j = 0; j < Count; ++j)
        names_[i][j] = kernel_name(fmt::format("{}_{}_{}_{}_{}", family, bits, group, i % 3, last[j]));
    }
    for (std::size_t j = 0; j < Count; ++j)
      small_floats_[j] = kernel_name(fmt::format("{}_e2m1_{}", family, last[j]));
  }
  const char* of(const WeightKind& kind, std::size_t which) const {
    if (kind.small_floats) return small_floats_[which];
    const int group = kind.group == 16 ? 0 : kind.group == 32 ? 1 : kind.group == 64 ? 2 : 3;
    const int place = ((kind.bits == 4 ? 0 : 4) + group) * 3 + static_cast<int>(kind.scale_type);
    return names_[static_cast<std::size_t>(place)][which];
  }

 private:
  std::array<std::array<const char*, Count>, 24> names_{};
  std::array<const char*, Count> small_floats_{};
};

/// What the kernels for Hopper multiply.
bool has_half_kernels(const WeightKind& kind) {
#define FT_KIND(bits, group, scales) WeightKind{bits, group, static_cast<ScaleType>(scales)},
  static constexpr std::array kKinds = {FT_HOPPER_HALF_KINDS(FT_KIND)};
#undef FT_KIND
  return std::ranges::find(kKinds, kind) != kKinds.end();
}
bool has_async_half_kernel(const WeightKind& kind, const Device& device) {
  return device.facts().async_products && has_half_kernels(kind);
}

AsyncLayout layout_of(const WeightKind& kind) {
  return async_half_layout(kind.group, record_bytes(kind.bits, kind.group, kind.scale_type));
}

std::int64_t swizzled_halves(std::int64_t rows, std::int64_t groups, int group) {
  return round_up(rows, kAsyncHalfRows) * groups * swizzled_half_bytes(group);
}

}  // namespace

bool streams_halves(const WeightKind& kind, const Device& device) {
  return device.facts().streams && has_half_kernels(kind);
}

const char* stream_half_name(const WeightKind& kind, int rows) {
  static const HalfNames<4> names("stream_half", {2, 4, 8, 16});
  return names.of(kind, rows == 2 ? 0 : rows == 4 ? 1 : rows == 8 ? 2 : 3);
}

const char* linear_half_name(const WeightKind& kind, int columns) {
  static const HalfNames<2> names("linear_half", {1, 4});
  return names.of(kind, columns == 4 ? 1 : 0);
}

/// More rows than a block of linear_half has, and blocks for a part of the SMs at least.
bool supports_async_half(const LinearCall& call, Device& device) {
  constexpr int kFrom = 33, kSmsOfABlock = 8;
  if (!call.of_halves() || call.args.rows < kFrom || !has_async_half_kernel(call.kind, device)) return false;
  const int blocks = parts_of(call.args.rows, kAsyncHalfRows) * parts_of(call.args.tiles, kAsyncTiles);
  return blocks * kSmsOfABlock >= device.facts().processors &&
         layout_of(call.kind).bytes <= device.facts().shared_bytes;
}

LinearNeeds async_half_needs(const LinearCall& call, Device& /*device*/) {
  return {call.rows_format(), layout_of(call.kind).bytes,
          swizzled_halves(call.args.rows, call.args.groups, call.kind.group)};
}

void launch_async_half(const LinearCall& call, Device& device) {
  static const HalfNames<1> names("async_gemm_half", {kAsyncHalfRows});
  const LinearArgs& args = call.args;
  const int blocks = parts_of(args.rows, kAsyncHalfRows);
  const SwizzleArgs rows{args.codes, args.scales, call.workspace, args.rows, args.groups, kAsyncHalfRows};
  const char* const swizzle =
      call.kind.group == kShortGroup ? "swizzle_activations_half_32" : "swizzle_activations_half_64";
  device.launch({swizzle, {parts_of(args.groups, 4), blocks}, 256}, &rows);
  const AsyncGemmArgs gemm{args, call.workspace};
  device.launch({names.of(call.kind, 0),
                 {std::min(blocks * parts_of(args.tiles, kAsyncTiles), device.facts().processors)},
                 kAsyncThreads + kAsyncCopiers,
                 layout_of(call.kind).bytes},
                &gemm);
}

std::int64_t half_workspace(const WeightKind& kind, std::int64_t cols, std::int64_t rows,
                            const Device& device) {
  return has_async_half_kernel(kind, device) ? swizzled_halves(rows, cols / kind.group, kind.group) : 0;
}

}  // namespace ft::cuda
