#include "backends/cpu/ops/prepared_rows.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"

namespace ft::cpu {
namespace {

int group_of(const Packed& weight) { return weight.pairs() ? kPairs : weight.group; }

/// `count` pieces of kBytes bytes, to places that are `step` bytes apart.
template <int kBytes>
void spread(const std::byte* from, std::int64_t count, std::byte* to, std::int64_t step) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * step, from + i * kBytes, kBytes);
}

}  // namespace

std::int64_t PreparedRows::bytes(std::int64_t rows) const {
  return round_up(rows * row_bytes, 64) + 2 * round_up(rows * groups * 4, 64);
}

std::byte* PreparedRows::place(std::byte* begin, std::int64_t rows) {
  data = begin;
  scales = reinterpret_cast<float*>(begin + round_up(rows * row_bytes, 64));
  sums = scales + round_up(rows * groups * 4, 64) / 4;
  return begin + bytes(rows);
}

PreparedRows PreparedRows::shifted(std::int64_t bytes) const {
  PreparedRows other = *this;
  other.data += bytes;
  other.scales += bytes / 4;
  other.sums += bytes / 4;
  return other;
}

void PreparedRows::write(const Kernels& kernels, const float* in, TilePlace at) const {
  if (group == kPairs) {
    PairArgs args;
    args.in = in;
    args.columns = columns;
    args.exact = int16;
    args.rows = at.rows;
    args.out = data + at.tile * row_bytes + at.row * pair_bytes;
    kernels.pair(args);
    return;
  }
  write(kernels, in, at, {0, groups});
}

void PreparedRows::write(const Kernels& kernels, const float* in, TilePlace at, GroupRange some) const {
  QuantiseArgs args;
  args.in = in + std::int64_t{some.first} * group;
  args.group = group;
  args.groups = some.last - some.first;
  args.int16 = int16;
  args.rows = at.rows;
  const int all_planes = at.rows * planes();
  args.quad_step = matrix ? 4 : 4 * all_planes;
  args.group_step = std::int64_t{group} * all_planes;
  args.codes = reinterpret_cast<std::int8_t*>(data + at.tile * row_bytes) + some.first * args.group_step +
               std::int64_t{at.row} * (matrix ? group : 4 * planes());
  const std::int64_t first = at.tile * groups + std::int64_t{some.first} * at.rows + at.row;
  args.scales = scales + first;
  args.sums = sums + first;
  kernels.quantise(args);
}

TilePlace PreparedRows::place_of(std::int64_t row, std::int64_t rows) const {
  const std::int64_t tile = row / tile_rows() * tile_rows();
  return {tile, static_cast<int>(row - tile),
          static_cast<int>(std::min<std::int64_t>(tile_rows(), rows - tile))};
}

void PreparedRows::copy(const PreparedRows& from, std::int64_t row, TilePlace at) const {
  const std::byte* source = from.data + row * row_bytes;
  std::byte* to = data + at.tile * row_bytes;
  if (matrix) {
    for (std::int64_t g = 0; g < groups; ++g)
      std::memcpy(to + (g * at.rows + at.row) * group, source + g * group, static_cast<std::size_t>(group));
  } else {
    const int unit = group == kPairs ? pair_bytes : 4 * planes();
    const auto pieces = unit == 4 ? spread<4> : spread<8>;
    pieces(source, row_bytes / unit, to + at.row * unit, std::int64_t{unit} * at.rows);
  }
  const std::int64_t first = at.tile * groups + at.row;
  for (std::int64_t g = 0; g < groups; ++g) {
    scales[first + g * at.rows] = from.scales[row * groups + g];
    sums[first + g * at.rows] = from.sums[row * groups + g];
  }
}

PreparedRows PreparedRows::arranged(const Kernels& kernels, std::int64_t rows) const {
  PreparedRows other = *this;
  other.matrix = group != kPairs && kernels.codes_matrix != nullptr && !int16 && rows >= kMinMatrixRows;
  return other;
}

Tile PreparedRows::tile(std::int64_t first_row, int rows) const {
  return {
      rows,   matrix, data + first_row * row_bytes, scales + first_row * groups, sums + first_row * groups,
      nullptr};
}

PreparedRows prepared_rows(int group, std::int64_t columns, const BuildContext& context) {
  PreparedRows rows;
  rows.group = group;
  rows.int16 = context.int16;
  rows.pair_bytes = context.pair_bytes;
  rows.columns = columns;
  if (group == kPairs) {
    rows.row_bytes = round_up(columns, 2) / 2 * context.pair_bytes;
  } else {
    rows.groups = static_cast<int>(columns / group);
    rows.row_bytes = columns * (context.int16 ? 2 : 1);
  }
  return rows;
}

std::vector<PreparedRows> prepared_for(std::span<const Packed* const> weights, std::int64_t columns,
                                       const BuildContext& context) {
  std::vector<PreparedRows> all;
  for (const Packed* weight : weights) {
    if (!weight->codes && !weight->pairs()) continue;
    if (find_prepared(all, *weight) < 0) all.push_back(prepared_rows(group_of(*weight), columns, context));
  }
  return all;
}

std::int64_t prepared_bytes(std::span<const PreparedRows> all, std::int64_t rows) {
  std::int64_t bytes = 0;
  for (const PreparedRows& each : all) bytes += each.bytes(rows);
  return bytes;
}

int find_prepared(std::span<const PreparedRows> all, const Packed& weight) {
  if (!weight.codes && !weight.pairs()) return -1;
  const auto found =
      std::ranges::find_if(all, [&](const PreparedRows& rows) { return rows.group == group_of(weight); });
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

int blocks_at_once(const Packed& weight) {
  constexpr int kPlainBlocks = 2;  // independent chains at eight rows
  return weight.codes ? 1 : weight.pairs() ? kPairBlocks : kPlainBlocks;
}

void multiply(const Kernels& kernels, const Packed& weight, bool int16, const Tile& tile, BlockRange blocks,
              float* out, std::int64_t stride) {
  const auto set = [&](auto& args) {
    args.weights = weight.data + blocks.first * weight.block_bytes;
    args.block_bytes = weight.block_bytes;
    args.blocks = blocks.last - blocks.first;
    args.outputs = static_cast<int>(weight.rows - static_cast<std::int64_t>(blocks.first) * kLanes);
    args.rows = tile.rows;
    args.out = out;
    args.out_stride = stride;
  };
  if (weight.codes) {
    CodesArgs args;
    set(args);
    args.bits = weight.bits;
    args.group = weight.group;
    args.groups = weight.groups;
    args.scale_format = weight.format;
    args.factor_groups = weight.factor_groups;
    args.zero = weight.zero;
    args.int16 = int16;
    args.codes = reinterpret_cast<const std::int8_t*>(tile.data);
    args.scales = tile.scales;
    args.sums = tile.sums;
    (tile.matrix ? kernels.codes_matrix : kernels.codes_product)(args);
  } else if (weight.pairs()) {
    PairsArgs args;
    set(args);
    args.pairs = round_up(weight.columns, 2) / 2;
    args.exact = int16;
    args.in = tile.data;
    kernels.pairs_product(args);
  } else {
    PlainArgs args;
    set(args);
    args.format = weight.format;
    args.columns = weight.columns;
    args.in = tile.plain;
    kernels.plain_product(args);
  }
}

}  // namespace ft::cpu
