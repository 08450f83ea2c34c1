#include "backends/cuda/linear_kernels.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "backends/cuda/half_kernels.h"
#include "backends/cuda/kernel_name.h"
#include "backends/cuda/kernels/hopper_kinds.h"
#include "base/assert.h"

namespace ft::cuda {
namespace {

/// A launch with its arguments.
template <class Args>
struct Planned {
  Launch launch;
  Args args;
  void run(Device& device) const { device.launch(launch, &args); }
};

/// Kinds other than kStreamedKind that have a named kernel in each family.
#define FT_KIND(bits, group, scales) WeightKind{bits, group, static_cast<ScaleType>(scales)},
constexpr std::array kNamedKinds = {FT_HOPPER_KINDS(FT_KIND) FT_HOPPER_STREAMED_KINDS(FT_KIND)};
#undef FT_KIND

bool is_named(const WeightKind& kind) { return std::ranges::find(kNamedKinds, kind) != kNamedKinds.end(); }

/// Names of kernels: family, bits, group, ScaleType and one of `last`.
template <std::size_t Count>
class KindNames {
 public:
  KindNames(std::string_view family, const std::array<int, Count>& last) {
    for (std::size_t i = 0; i < kNamedKinds.size(); ++i) {
      const WeightKind& kind = kNamedKinds[i];
      for (std::size_t j = 0; j < Count; ++j)
        names_[i][j] = kernel_name(fmt::format("{}_{}_{}_{}_{}", family, kind.bits, kind.group,
                                               static_cast<int>(kind.scale_type), last[j]));
    }
  }
  const char* of(const WeightKind& kind, std::size_t which) const {
    return names_[static_cast<std::size_t>(std::ranges::find(kNamedKinds, kind) - kNamedKinds.begin())]
                 [which];
  }

 private:
  std::array<std::array<const char*, Count>, kNamedKinds.size()> names_{};
};

bool streams(const WeightKind& kind, const Device& device) {
  return device.facts().streams && (kind == kStreamedKind || is_named(kind));
}

int record_of(const WeightKind& kind) { return record_bytes(kind.bits, kind.group, kind.scale_type); }

LinearNeeds needs_of(const LinearCall& call, const Launch& launch) {
  return {call.rows_format(), launch.shared_bytes, 0};
}

// ---- stream: few rows, the codes of all of them in shared memory (kernels/hopper_linear.cu) ----

/// `even`: its slices of K are equal.
const char* stream_name(int rows, int chunk, bool even) {
  static const auto names = [] {
    std::array<std::array<std::array<const char*, 2>, 7>, 17> all{};
    for (const int r : {2, 4, 8, 16}) {
      for (const int c : {2, 4, 5, 6}) {
        all[r][c] = {kernel_name(fmt::format("stream_uneven_{}_{}", r, c)),
                     kernel_name(fmt::format("stream_{}_{}", r, c))};
      }
    }
    return all;
  }();
  return names[static_cast<std::size_t>(rows)][static_cast<std::size_t>(chunk)][even ? 1 : 0];
}

/// The same of a kind with its own name.
const char* stream_name_of(const WeightKind& kind, int rows) {
  static const KindNames<4> names("stream", {2, 4, 8, 16});
  return names.of(kind, rows == 2 ? 0 : rows == 4 ? 1 : rows == 8 ? 2 : 3);
}

std::optional<Planned<StreamArgs>> plan_stream(const LinearCall& call, Device& device) {
  constexpr int kMaxRows = 16, kMaxStages = 12, kEarlyOfFew = 5, kEarlyOfMany = 3;
  constexpr int kManyStages = 4, kManyBytes = 180 << 10;
  const LinearArgs& args = call.args;
  const bool halves = call.of_halves();
  if (!call.packed() || args.rows > kMaxRows) return std::nullopt;
  if (halves ? !streams_halves(call.kind, device) : !streams(call.kind, device)) return std::nullopt;
  const int columns = args.rows <= 8 ? 1 : 2, of_slice = slice_groups(args.groups),
            chunk = piece_groups(of_slice), blocks = std::min(args.tiles, device.facts().processors);
  // Not all stages that a block will read: x would wait for them.
  const int half = parts_of(args.tiles, blocks) * parts_of(of_slice, chunk) / 2;
  StreamArgs stream{args, call.producer, 0, std::clamp(half, 1, args.rows <= 2 ? kEarlyOfFew : kEarlyOfMany)};
  const auto bytes_at = [&](int stages) {
    stream.stages = stages;
    return stream_layout(stream, columns, chunk, call.kind.group, record_of(call.kind),
                         call.rows_format().input_bytes())
        .bytes;
  };
  // Enough in flight, and room for the blocks of the small kernels after it, so that those begin early.
  int stages = 0;
  while (stages < kMaxStages && bytes_at(stages + 1) <= device.facts().shared_bytes &&
         (stages < kManyStages || bytes_at(stages + 1) <= kManyBytes))
    ++stages;
  if (stages < 2) return std::nullopt;
  const int bytes = bytes_at(stages);  // sets them
  const int rows = args.rows <= 2 ? 2 : args.rows <= 4 ? 4 : args.rows <= 8 ? 8 : 16;
  const char* const name = halves                ? stream_half_name(call.kind, rows)
                           : is_named(call.kind) ? stream_name_of(call.kind, rows)
                                                 : stream_name(rows, chunk, args.groups % kSplitK == 0);
  return Planned<StreamArgs>{{name, {blocks}, kStreamThreads, bytes}, stream};
}

// ---- splitk_cluster_gemm: a slice of K for each block of a cluster (kernels/hopper_rows.cu) ----

const char* splitk_name(int columns) {
  constexpr std::array<const char*, 9> kNames = {nullptr,
                                                 nullptr,
                                                 "splitk_cluster_gemm_2",
                                                 "splitk_cluster_gemm_3",
                                                 "splitk_cluster_gemm_4",
                                                 nullptr,
                                                 "splitk_cluster_gemm_6",
                                                 nullptr,
                                                 "splitk_cluster_gemm_8"};
  return kNames[static_cast<std::size_t>(columns)];
}

std::optional<Planned<SplitKGemmArgs>> plan_splitk(const WeightKind& kind, const LinearArgs& args,
                                                   Device& device) {
  constexpr int kMaxStages = 12, kMinStages = 3, kManyStages = 4, kEarly = 3;
  constexpr int kMaxColumns = 8, kRoom = 200 << 10;
  if (!device.facts().streams || !(kind == kStreamedKind) || args.groups < kSplitK) return std::nullopt;
  int columns = std::max(2, parts_of(args.rows, ActivationFormat::kColumnRows));
  if (columns > kMaxColumns) return std::nullopt;
  if (columns > 4) columns = columns <= 6 ? 6 : 8;
  SplitKGemmArgs rows{args, 0, kEarly};
  const auto bytes_at = [&](int stages) {
    rows.stages = stages;
    return splitk_layout(rows, columns).bytes;
  };
  const int fixed = bytes_at(0), stage = bytes_at(1) - fixed;
  const int room = std::min(device.facts().shared_bytes, std::max(kRoom, fixed + kManyStages * stage));
  const int stages = std::min(kMaxStages, (room - fixed) / stage);
  if (stages < kMinStages) return std::nullopt;
  Launch launch{splitk_name(columns), {kSplitK}, kSplitKThreads, bytes_at(stages)};
  const int clusters = std::min(device.clusters(launch), parts_of(args.tiles, 8));
  if (clusters == 0) return std::nullopt;
  launch.grid.x = clusters * kSplitK;
  return Planned<SplitKGemmArgs>{launch, rows};
}

/// Rows `first` and later, `rows` of them; `first` begins a column.
LinearArgs rows_from(const LinearCall& call, int first, int rows) {
  LinearArgs args = call.args;
  args.codes += std::ptrdiff_t{first} * call.k();
  args.scales += call.rows_format().scale_floats_before(first, call.k());
  args.out.data += std::ptrdiff_t{first} * args.out.stride;
  if (args.residual.data != nullptr) args.residual.data += std::ptrdiff_t{first} * args.residual.stride;
  args.rows = rows;
  return args;
}

/// Two launches of up to 32 rows, which fit where 64 do not.
struct Halves {
  Planned<SplitKGemmArgs> first, second;
};
std::optional<Halves> plan_halves(const LinearCall& call, Device& device) {
  constexpr int kHalf = 32;
  const int rows = call.args.rows;
  if (!call.of_codes() || rows <= kHalf || rows > 2 * kHalf) return std::nullopt;
  const auto first = plan_splitk(call.kind, rows_from(call, 0, kHalf), device);
  const auto second = plan_splitk(call.kind, rows_from(call, kHalf, rows - kHalf), device);
  if (!first || !second) return std::nullopt;
  return Halves{*first, *second};
}

// ---- async_gemm: many rows, by Hopper's asynchronous matrix instruction (kernels/sm90_gemm.cu) ----

/// Rows per block with which the product ends first: 64, 80 or 96; 0: too few blocks for the SMs.
int async_rows(int rows, int tiles, int processors) {
  constexpr std::pair<int, int> kCosts[] = {{64, 76}, {80, 85}, {kMaxAsyncRows, 111}};  // of a group: 10 ns
  int best = 0, best_cost = 0;
  for (const auto& [height, group_cost] : kCosts) {
    const int blocks = parts_of(rows, height) * parts_of(tiles, kAsyncTiles);
    const int cost = parts_of(blocks, processors) * group_cost;
    if (blocks < processors * 3 / 4 || (best > 0 && cost >= best_cost)) continue;
    best = height, best_cost = cost;
  }
  return best;
}

/// The same of kinds with their own names: 64 or 80.
int named_async_rows(int rows, int tiles, int processors) {
  if (parts_of(rows, 64) * parts_of(tiles, kAsyncTiles) < processors * 3 / 4) return 0;
  const auto waves = [&](int height) {
    return parts_of(parts_of(rows, height) * parts_of(tiles, kAsyncTiles), processors);
  };
  return waves(80) * 85 < waves(64) * 76 ? 80 : 64;
}

const char* async_name(const WeightKind& kind, int rows) {
  if (!is_named(kind)) return rows == 64 ? "async_gemm_64" : rows == 80 ? "async_gemm_80" : "async_gemm_96";
  static const KindNames<2> names("async_gemm", {64, 80});
  return names.of(kind, rows == 64 ? 0 : 1);
}

/// The asynchronous instruction multiplies 32 inputs at least.
bool has_async_kernel(const WeightKind& kind, const Device& device) {
  return device.facts().async_products &&
         (kind == kStreamedKind || (is_named(kind) && kind.group >= kShortGroup));
}

AsyncLayout layout_of(const WeightKind& kind, int height) {
  return async_layout(height, kind.group, record_of(kind));
}

/// 0: the kernel does not support the call.
int async_height(const LinearCall& call, const Device& device) {
  if (!call.of_codes() || !has_async_kernel(call.kind, device)) return 0;
  const DeviceFacts& facts = device.facts();
  const int height = is_named(call.kind) ? named_async_rows(call.args.rows, call.args.tiles, facts.processors)
                                         : async_rows(call.args.rows, call.args.tiles, facts.processors);
  return height == 0 || layout_of(call.kind, height).bytes > facts.shared_bytes ? 0 : height;
}

std::int64_t swizzled_bytes_of(std::int64_t rows, std::int64_t groups, int group) {
  return rows * groups * swizzled_bytes(group);
}

LinearNeeds async_needs(const LinearCall& call, Device& device) {
  const int height = async_height(call, device);
  return {call.rows_format(), layout_of(call.kind, height).bytes,
          swizzled_bytes_of(round_up(call.args.rows, height), call.args.groups, call.kind.group)};
}

/// The rows in blocks of that height, group by group, then the product.
void launch_async(const LinearCall& call, Device& device) {
  const LinearArgs& args = call.args;
  const int height = async_height(call, device), blocks = parts_of(args.rows, height);
  const SwizzleArgs rows{args.codes, args.scales, call.workspace, args.rows, args.groups, height};
  const char* const swizzle =
      call.kind.group == kShortGroup ? "swizzle_activations_32" : "swizzle_activations";
  device.launch({swizzle, {parts_of(args.groups, 4), parts_of(blocks * height, 64)}, 256}, &rows);
  const AsyncGemmArgs gemm{args, call.workspace};
  device.launch({async_name(call.kind, height),
                 {std::min(blocks * parts_of(args.tiles, kAsyncTiles), device.facts().processors)},
                 kAsyncThreads + kAsyncCopiers,
                 layout_of(call.kind, height).bytes},
                &gemm);
}

// ---- gemm: many rows, on any GPU (kernels/gemm.cu) ----

const char* gemm_name(const WeightKind& kind, int rows) {
  static const KindNames<1> names("gemm", {4});
  if (is_named(kind)) return names.of(kind, 0);
  if (kind.bits == 4 && kind.scale_type == kBf16Scales) return rows == 128 ? "gemm_4_0_8" : "gemm_4_0_4";
  if (kind.bits == 4) return "gemm_4_1_4";
  return "gemm_8_1_4";
}

/// Blocks of 128 rows if they give every SM work, otherwise of 64.
std::optional<Planned<GemmArgs>> plan_gemm(const LinearCall& call, Device& device) {
  constexpr int kFrom = 33;  // fewer rows suit `linear`
  constexpr int kMinStages = 2, kMaxStages = 4, kBlocksOfAnSm = 2, kReserved = 1 << 10;
  const LinearArgs& args = call.args;
  const WeightKind& kind = call.kind;
  if (!call.of_codes() || (kind.group != kStreamedGroup && !is_named(kind)) || args.rows < kFrom)
    return std::nullopt;
  const int heights = parts_of(args.tiles, kGemmTiles);
  // A block of `linear` has fewer rows and outputs, so small products of short groups are faster there.
  if (kind.group < kStreamedGroup && parts_of(args.rows, 64) * heights < device.facts().processors)
    return std::nullopt;
  const bool large = kind == kStreamedKind && parts_of(args.rows, 128) * heights >= device.facts().processors;
  const int rows = large ? 128 : 64;
  const int sums = gemm_sum_bytes(rows),
            stage = gemm_stage_bytes(kind.bits, kind.group, kind.scale_type, rows);
  const int room = device.facts().shared_bytes / kBlocksOfAnSm - kReserved - sums;
  const GemmArgs gemm{args, std::clamp(room / stage, kMinStages, kMaxStages)};
  return Planned<GemmArgs>{
      {gemm_name(kind, rows), {parts_of(args.rows, rows), heights}, kGemmThreads, sums + gemm.stages * stage},
      gemm};
}

// ---- linear_half: any packed weights with rows of halves (kernels/half.cu) ----

std::optional<Planned<LinearArgs>> plan_half(const LinearCall& call, Device& /*device*/) {
  if (!call.of_halves()) return std::nullopt;
  const int columns = call.args.rows <= ActivationFormat::kColumnRows ? 1 : 4;
  return Planned<LinearArgs>{
      {linear_half_name(call.kind, columns),
       {call.args.tiles, parts_of(call.args.rows, columns * ActivationFormat::kColumnRows)},
       256},
      call.args};
}

// ---- linear: any packed weights; linear_plain: any plain ones (kernels/linear.cu) ----

/// `columns`: of eight rows, of a block: 1 or 4.
const char* linear_name(const WeightKind& kind, int columns) {
  if (kind.small_floats) return columns == 4 ? "linear_e2m1_4" : "linear_e2m1_1";
  static const KindNames<2> kind_names("linear", {1, 4});
  if (is_named(kind)) return kind_names.of(kind, columns == 4 ? 1 : 0);
  static const auto names = [] {
    std::array<const char*, 16> all{};
    std::size_t at = 0;
    for (const int bits : {4, 8}) {
      for (const int group : {64, 128}) {
        for (const int floats : {0, 1}) {
          for (const int n : {1, 4})
            all[at++] = kernel_name(fmt::format("linear_{}_{}_{}_{}", bits, group, floats, n));
        }
      }
    }
    return all;
  }();
  const int of_group = (kind.bits == 8 ? 2 : 0) + (kind.group == 128 ? 1 : 0);
  const int at = (of_group * 2 + (kind.scale_type == kFloatScales ? 1 : 0)) * 2 + (columns == 4 ? 1 : 0);
  return names[static_cast<std::size_t>(at)];
}

Planned<LinearArgs> plan_linear(const LinearCall& call) {
  const int columns = call.args.rows <= ActivationFormat::kColumnRows ? 1 : 4;
  return {{linear_name(call.kind, columns),
           {call.args.tiles, parts_of(call.args.rows, columns * ActivationFormat::kColumnRows)},
           256},
          call.args};
}

// ---- linear_plain_RxO: rows and outputs of a warp, of plain weights with enough outputs for all SMs ----

std::optional<Planned<PlainLinearArgs>> plan_outputs(const LinearCall& call, Device& device) {
  constexpr int kWarps = 8;
  const PlainLinearArgs& args = call.plain;
  if (call.packed() || args.wide != 0 || args.also.outputs != 0) return std::nullopt;
  const int of_all = kWarps * device.facts().processors;  // outputs, if each warp of an SM has one
  const int outputs = args.outputs >= 4 * of_all ? 4 : args.outputs >= 2 * of_all ? 2 : 0;
  if (outputs == 0) return std::nullopt;
  const int rows = args.rows == 1 ? 1 : args.rows <= 4 ? 4 : 8;
  const char* const name = rows == 1      ? outputs == 4 ? "linear_plain_1x4" : "linear_plain_1x2"
                           : rows == 4    ? outputs == 4 ? "linear_plain_4x4" : "linear_plain_4x2"
                           : outputs == 4 ? "linear_plain_8x4"
                                          : "linear_plain_8x2";
  return Planned<PlainLinearArgs>{
      {name, {parts_of(args.outputs, kWarps * outputs), parts_of(args.rows, rows)}, 32 * kWarps}, args};
}

Planned<PlainLinearArgs> plan_plain(const LinearCall& call) {
  const PlainLinearArgs& args = call.plain;
  const int rows = args.rows == 1 ? 1 : 4;
  return {{rows == 1 ? "linear_plain_1" : "linear_plain_4",
           {parts_of(args.outputs + args.also.outputs, args.block_outputs), parts_of(args.rows, rows)},
           32 * args.block_outputs},
          args};
}

// ---- the table ----

/// The entry of a kernel whose launch `plan` makes, or nothing if the kernel does not support the call.
template <auto plan>
constexpr LinearKernel planned(const char* name, int own_rows = 0) {
  return {name, own_rows,
          [](const LinearCall& call, Device& device) { return plan(call, device).has_value(); },
          [](const LinearCall& call, Device& device) { return needs_of(call, plan(call, device)->launch); },
          [](const LinearCall& call, Device& device) { plan(call, device)->run(device); }};
}

constexpr auto kSplitKOfAll = [](const LinearCall& call, Device& device) {
  return call.of_codes() ? plan_splitk(call.kind, call.args, device) : std::nullopt;
};
constexpr auto kLinear = [](const LinearCall& call, Device& /*device*/) {
  return call.of_codes() ? std::optional(plan_linear(call)) : std::nullopt;
};
constexpr auto kPlain = [](const LinearCall& call, Device& /*device*/) {
  return call.packed() ? std::nullopt : std::optional(plan_plain(call));
};

constexpr LinearKernel kHalvesKernel = {
    "splitk_cluster_gemm, twice", 0,
    [](const LinearCall& call, Device& device) { return plan_halves(call, device).has_value(); },
    [](const LinearCall& call, Device& device) {
      const Halves halves = *plan_halves(call, device);
      const Launch &first = halves.first.launch, &second = halves.second.launch;
      return needs_of(call, first.shared_bytes > second.shared_bytes ? first : second);
    },
    [](const LinearCall& call, Device& device) {
      const Halves halves = *plan_halves(call, device);
      halves.first.run(device), halves.second.run(device);
    }};
constexpr LinearKernel kAsyncKernel = {
    "async_gemm", 0, [](const LinearCall& call, Device& device) { return async_height(call, device) > 0; },
    async_needs, launch_async};

constexpr LinearKernel kAsyncHalfKernel = {"async_gemm_half", 0, supports_async_half, async_half_needs,
                                           launch_async_half};

constexpr std::array kTable = {planned<plan_stream>("stream", kProducerRows),
                               planned<kSplitKOfAll>("splitk_cluster_gemm"),
                               kHalvesKernel,
                               kAsyncKernel,
                               kAsyncHalfKernel,
                               planned<plan_gemm>("gemm"),
                               planned<kLinear>("linear"),
                               planned<plan_half>("linear_half"),
                               planned<plan_outputs>("linear_plain_outputs"),
                               planned<kPlain>("linear_plain")};

constexpr int kOwnRows =
    std::ranges::max(kTable, {}, &LinearKernel::own_rows).own_rows;  // of the only kernel that makes codes
static_assert(kOwnRows <= kProducerRows);

}  // namespace

std::span<const LinearKernel> linear_kernels() { return kTable; }

const LinearKernel& choose_linear(const LinearCall& call, Device& device) {
  const auto kernel =
      std::ranges::find_if(kTable, [&](const LinearKernel& entry) { return entry.supports(call, device); });
  FT_ASSERT(kernel != kTable.end());
  return *kernel;
}

bool makes_codes(const WeightKind& kind, Arithmetic arithmetic, const Device& device) {
  return arithmetic == Arithmetic::kCodes ? streams(kind, device) : streams_halves(kind, device);
}

bool makes_codes(const FusedProducer& producer, int rows, int k) {
  constexpr int kMaxFloats = 8192;  // that each block reads
  if (producer.kind == kFromCodes || rows > kOwnRows) return false;
  return rows * k <= kMaxFloats;
}

std::int64_t linear_workspace(const WeightKind& kind, Arithmetic arithmetic, std::int64_t cols,
                              std::int64_t rows, const Device& device) {
  if (arithmetic == Arithmetic::kHalves) return half_workspace(kind, cols, rows, device);
  if (!has_async_kernel(kind, device)) return 0;
  return swizzled_bytes_of(rows + kMaxAsyncRows, cols / kind.group, kind.group);
}

}  // namespace ft::cuda
