#include <algorithm>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"

namespace ft::cpu {
namespace {

// The rows of a large batch are taken in portions whose input stays in a core's second cache while the
// weights stream through.
constexpr std::int64_t kInputBytes = 384 << 10;

constexpr int kLeastMatrixRows = 9;  // of a step, from which Kernels::codes_matrix is faster

constexpr int kPairs = 0;  // replaces a group size: pairs of columns for bf16 weights

/// Quantised activations: the step's rows for one group size, or in pairs, tile by tile (layout: kernels.h).
struct QuantisedRows {
  int group = kPairs, groups = 0;
  std::int64_t row_bytes = 0;  // of codes or pairs
  std::byte* data = nullptr;   // [max_rows, row_bytes]
  float* scales = nullptr;     // [max_rows, groups]
  float* sums = nullptr;       // [max_rows, groups]

  /// The copy of `worker`; copies are `bytes` apart.
  QuantisedRows of(int worker, std::int64_t bytes) const {
    QuantisedRows own = *this;
    own.data += worker * bytes;
    own.scales += worker * bytes / 4;
    own.sums += worker * bytes / 4;
    return own;
  }
};

/// The shape only, without memory.
QuantisedRows quantised_rows(int group, std::int64_t columns, const Parts& parts) {
  if (group == kPairs) return {kPairs, 0, round_up(columns, 2) / 2 * parts.pair_bytes};
  return {group, static_cast<int>(columns / group), columns * (parts.int16 ? 2 : 1)};
}

/// Bytes of `rows` rows for all `groups`.
std::int64_t quantised_rows_bytes(const std::vector<int>& groups, std::int64_t columns, std::int64_t rows,
                                  const Parts& parts) {
  std::int64_t bytes = 0;
  for (const int group : groups) {
    const QuantisedRows rows_of = quantised_rows(group, columns, parts);
    bytes += round_up(rows * rows_of.row_bytes, 64) + 2 * round_up(rows * rows_of.groups * 4, 64);
  }
  return bytes;
}

/// Group sizes (or kPairs) that the weights want their rows arranged for; plain ones take them as they are.
std::vector<int> distinct_groups(std::span<const Packed* const> weights) {
  std::vector<int> groups;
  for (const Packed* weight : weights) {
    if (!weight->codes && !weight->pairs()) continue;
    const int group = weight->pairs() ? kPairs : weight->group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

class LinearOp final : public Operation {
 public:
  LinearOp(LinearParts linear, const Parts& parts)
      : weights_(std::move(linear.weights)),
        in_(linear.in),
        outs_(std::move(linear.outs)),
        planes_(parts.int16 ? 2 : 1),
        logit_rows_only_(linear.logit_rows_only),
        softcap_(linear.softcap) {
    const std::int64_t max_rows = logit_rows_only_ ? parts.options.max_logit_rows : parts.options.max_rows;
    const std::vector<int> groups = distinct_groups(weights_);
    own_bytes_ = quantised_rows_bytes(groups, in_.width, small_batch_rows(parts.options), parts);
    lay_out(groups, max_rows, parts, shared_);
    lay_out(groups, small_batch_rows(parts.options), parts, own_);
    for (const QuantisedRows& rows : shared_) row_bytes_ = std::max(row_bytes_, rows.row_bytes);
    if (shared_.empty()) row_bytes_ = in_.width * 4;
  }

  void run(const Step& step, int worker, int workers) override {
    const std::int64_t rows =
        logit_rows_only_ ? static_cast<std::int64_t>(step.args->logit_rows.size()) : step.rows;
    if (rows == 0) return;
    const bool matrix = as_matrix(step, rows);
    for (std::size_t i = 0; i < shared_.size(); ++i)
      prepare(step, inputs(step, i, worker), {0, rows}, matrix, worker, workers);
    if (!shared_.empty() && !step.small_batch) step.barrier(worker);
    const std::int64_t whole = matrix ? kMatrixRows : kTileRows;  // of which a portion is a multiple
    const std::int64_t portion = std::max<std::int64_t>(whole, kInputBytes / row_bytes_ / whole * whole);
    for (std::int64_t first = 0; first < rows; first += portion) {
      const std::int64_t last = std::min(rows, first + portion);
      for (std::size_t j = 0; j < weights_.size(); ++j) {
        const Packed& weight = *weights_[j];
        const int begin = weight.first_block(worker, workers);
        const int end = weight.first_block(worker + 1, workers);
        if (begin == end) continue;
        if (weight.codes) {
          codes_product(step, weight, outs_[j], worker, {begin, end}, {first, last}, matrix);
        } else if (weight.pairs()) {
          pairs_product(step, weight, outs_[j], worker, {begin, end}, first, last);
        } else {
          plain_product(step, weight, outs_[j], worker, {begin, end}, first, last);
        }
        if (softcap_ > 0) cap(step, weight, outs_[j], {begin, end}, first, last);
      }
    }
  }

 private:
  const float* input(const Step& step, std::int64_t row, int worker) const {
    return step.of(in_, worker)
        .row(logit_rows_only_ ? step.args->logit_rows[static_cast<std::size_t>(row)] : row);
  }

  /// Places the step's quantised activations for each group size in the instruction's scratch.
  void lay_out(const std::vector<int>& groups, std::int64_t rows, const Parts& parts,
               std::vector<QuantisedRows>& all) const {
    std::byte* at = parts.scratch;
    const auto take = [&at](std::int64_t bytes) {
      std::byte* begin = at;
      at += round_up(bytes, 64);
      return begin;
    };
    for (const int group : groups) {
      QuantisedRows inputs = quantised_rows(group, in_.width, parts);
      inputs.data = take(rows * inputs.row_bytes);
      inputs.scales = reinterpret_cast<float*>(take(rows * inputs.groups * 4));
      inputs.sums = reinterpret_cast<float*>(take(rows * inputs.groups * 4));
      all.push_back(inputs);
    }
  }

  QuantisedRows inputs(const Step& step, std::size_t index, int worker) const {
    return step.small_batch ? own_[index].of(worker, own_bytes_) : shared_[index];
  }
  QuantisedRows inputs_for(const Step& step, int group, int worker) const {
    const auto found = std::find_if(shared_.begin(), shared_.end(),
                                    [&](const QuantisedRows& a) { return a.group == group; });
    return inputs(step, static_cast<std::size_t>(found - shared_.begin()), worker);
  }
  /// Whether the step's quantised rows are for Kernels::codes_matrix, which needs many to pay.
  bool as_matrix(const Step& step, std::int64_t rows) const {
    return step.kernels->codes_matrix != nullptr && planes_ == 1 && rows >= kLeastMatrixRows;
  }
  /// Rows of a tile.
  int tile(int group, bool matrix) const {
    return group == kPairs ? kTileRows : matrix ? kMatrixRows : kTilePlanes / planes_;
  }

  /// In a small batch every worker prepares all rows for itself; in a large one, its range of rows for all.
  void prepare(const Step& step, const QuantisedRows& inputs, Range all, bool matrix, int worker,
               int workers) const {
    const std::int64_t rows = all.last;
    const Range range = step.small_batch ? all : partition(rows, 1, worker, workers);
    const int tile_rows = tile(inputs.group, matrix);
    for (std::int64_t row = range.first; row < range.last; ++row) {
      const std::int64_t tile = row / tile_rows * tile_rows;
      const Place place{tile, static_cast<int>(row - tile),
                        static_cast<int>(std::min<std::int64_t>(tile_rows, rows - tile))};
      const float* in = input(step, row, worker);
      inputs.group == kPairs ? pair(step, inputs, in, place) : quantise(step, inputs, in, place, matrix);
    }
  }

  /// Place of a row in its tile.
  struct Place {
    std::int64_t tile;  // its first row
    int row, rows;
  };

  void pair(const Step& step, const QuantisedRows& inputs, const float* in, Place place) const {
    PairArgs args;
    args.in = in;
    args.columns = in_.width;
    args.exact = planes_ == 2;
    args.rows = place.rows;
    args.out = inputs.data + place.tile * inputs.row_bytes +
               place.row * (args.exact ? kExactPairBytes : step.kernels->pair_bytes);
    step.kernels->pair(args);
  }

  void quantise(const Step& step, const QuantisedRows& inputs, const float* in, Place place,
                bool matrix) const {
    QuantiseArgs args;
    args.in = in;
    args.group = inputs.group;
    args.groups = inputs.groups;
    args.int16 = planes_ == 2;
    args.rows = place.rows;
    const int planes = args.rows * planes_;
    args.quad_step = matrix ? 4 : 4 * planes;
    args.group_step = std::int64_t{inputs.group} * planes;
    args.codes = codes(inputs, place.tile) + std::int64_t{place.row} * (matrix ? inputs.group : 4 * planes_);
    args.scales = inputs.scales + place.tile * inputs.groups + place.row;
    args.sums = inputs.sums + place.tile * inputs.groups + place.row;
    step.kernels->quantise(args);
  }

  static std::int8_t* codes(const QuantisedRows& inputs, std::int64_t row) {
    return reinterpret_cast<std::int8_t*>(inputs.data + row * inputs.row_bytes);
  }

  struct Blocks {
    int begin, end;
  };

  /// Calls kernel(args, row) for tiles of rows of [first, last), with `at_once` blocks at a time set in args.
  /// A small batch is one call that streams all blocks. A large batch reads each `at_once` blocks once for
  /// all tiles of rows.
  template <class Args, class Kernel>
  static void each_tile(const Packed& weight, Matrix out, Blocks blocks, int at_once, int tile_rows,
                        std::int64_t first, std::int64_t last, Args& args, const Kernel& kernel) {
    if (last - first <= tile_rows) at_once = blocks.end - blocks.begin;
    args.block_bytes = weight.block_bytes;
    args.out_stride = out.width;
    for (int block = blocks.begin; block < blocks.end; block += at_once) {
      args.weights = weight.data + block * weight.block_bytes;
      args.blocks = std::min(at_once, blocks.end - block);
      args.outputs = static_cast<int>(weight.rows - static_cast<std::int64_t>(block) * kLanes);
      for (std::int64_t row = first; row < last; row += tile_rows) {
        args.rows = static_cast<int>(std::min<std::int64_t>(tile_rows, last - row));
        args.out = out.row(row) + static_cast<std::int64_t>(block) * kLanes;
        kernel(args, row);
      }
    }
  }

  /// Of the outputs that this worker has just written.
  void cap(const Step& step, const Packed& weight, Matrix out, Blocks blocks, std::int64_t first,
           std::int64_t last) const {
    const std::int64_t begin = static_cast<std::int64_t>(blocks.begin) * kLanes;
    const std::int64_t end = std::min<std::int64_t>(weight.rows, std::int64_t{blocks.end} * kLanes);
    for (std::int64_t row = first; row < last; ++row)
      step.kernels->softcap(out.row(row) + begin, end - begin, softcap_);
  }

  void codes_product(const Step& step, const Packed& weight, Matrix out, int worker, Blocks blocks,
                     Range rows, bool matrix) const {
    const QuantisedRows inputs = inputs_for(step, weight.group, worker);
    CodesArgs args;
    args.bits = weight.bits;
    args.group = weight.group;
    args.groups = weight.groups;
    args.scale_format = weight.format;
    args.int16 = planes_ == 2;
    const auto product = matrix ? step.kernels->codes_matrix : step.kernels->codes_product;
    each_tile(weight, out, blocks, 1, tile(weight.group, matrix), rows.first, rows.last, args,
              [&](CodesArgs& of_tile, std::int64_t row) {
                of_tile.codes = codes(inputs, row);
                of_tile.scales = inputs.scales + row * inputs.groups;
                of_tile.sums = inputs.sums + row * inputs.groups;
                product(of_tile);
              });
  }

  void pairs_product(const Step& step, const Packed& weight, Matrix out, int worker, Blocks blocks,
                     std::int64_t first, std::int64_t last) const {
    const QuantisedRows inputs = inputs_for(step, kPairs, worker);
    PairsArgs args;
    args.pairs = round_up(weight.columns, 2) / 2;
    args.exact = planes_ == 2;
    each_tile(weight, out, blocks, kPairBlocks, kTileRows, first, last, args,
              [&](PairsArgs& of_tile, std::int64_t row) {
                of_tile.in = inputs.data + row * inputs.row_bytes;
                step.kernels->pairs_product(of_tile);
              });
  }

  void plain_product(const Step& step, const Packed& weight, Matrix out, int worker, Blocks blocks,
                     std::int64_t first, std::int64_t last) const {
    constexpr int kPlainBlocks = 2;  // independent chains at eight rows
    PlainArgs args;
    args.format = weight.format;
    args.columns = weight.columns;
    const float* in[kTileRows];
    args.in = in;
    each_tile(weight, out, blocks, kPlainBlocks, kTileRows, first, last, args,
              [&](PlainArgs& of_tile, std::int64_t row) {
                for (int m = 0; m < of_tile.rows; ++m) in[m] = input(step, row + m, worker);
                step.kernels->plain_product(of_tile);
              });
  }

  std::vector<const Packed*> weights_;
  Matrix in_;
  std::vector<Matrix> outs_;
  std::vector<QuantisedRows> shared_, own_;  // of a large batch; of worker 0 in a small one
  int planes_;                               // of a quantised row
  std::int64_t own_bytes_ = 0;               // bytes between two workers' rows in a small batch
  std::int64_t row_bytes_ = 0;               // maximum bytes of a quantised row
  bool logit_rows_only_;
  float softcap_;  // 0: none
};

}  // namespace

std::int64_t linear_scratch_bytes(std::span<const Packed* const> weights, int max_rows, const Parts& parts) {
  const std::vector<int> groups = distinct_groups(weights);
  const std::int64_t columns = weights.front()->columns;
  return std::max(
      quantised_rows_bytes(groups, columns, max_rows, parts),
      parts.workers * quantised_rows_bytes(groups, columns, small_batch_rows(parts.options), parts));
}

Needs needs(const Linear& /*op*/, const Parts& parts) {
  return {linear_scratch_bytes(parts.packed, parts.options.max_rows, parts), 0};
}

std::unique_ptr<Operation> make_linear(LinearParts linear, const Parts& parts) {
  return std::make_unique<LinearOp>(std::move(linear), parts);
}

std::unique_ptr<Operation> make(const Linear& op, const Parts& parts) {
  LinearParts linear{{parts.packed.begin(), parts.packed.end()}, parts.matrix(op.in), {}, false, 0};
  for (const Row out : op.outs) linear.outs.push_back(parts.matrix(out));
  return make_linear(std::move(linear), parts);
}

}  // namespace ft::cpu
