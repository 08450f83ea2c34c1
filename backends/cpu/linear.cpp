#include <algorithm>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"

namespace ft::cpu {
namespace {

// Rows of a long step are taken in portions whose input stays in a core's second cache while the weights pass
// by.
constexpr std::int64_t kInputBytes = 384 << 10;

/// The step's rows quantised for one group size, tile after tile (layout: kernels.h).
struct Quantised {
  int group = 0, groups = 0;
  std::int8_t* codes = nullptr;  // [max_rows, columns], twice that if in halves
  float* scales = nullptr;       // [max_rows, groups]
  float* sums = nullptr;         // [max_rows, groups]

  /// That of `worker`, `bytes` apart from the next one's.
  Quantised of(int worker, std::int64_t bytes) const {
    Quantised own = *this;
    own.codes += worker * bytes;
    own.scales += worker * bytes / 4;
    own.sums += worker * bytes / 4;
    return own;
  }
};

/// Bytes of all `groups` of `rows` quantised rows.
std::int64_t quantised_bytes(const std::vector<int>& groups, std::int64_t columns, std::int64_t rows,
                             int planes) {
  std::int64_t bytes = 0;
  for (const int group : groups)
    bytes += round_up(rows * columns * planes, 64) + 2 * round_up(rows * (columns / group) * 4, 64);
  return bytes;
}

std::vector<int> distinct_groups(const std::vector<const Packed*>& weights) {
  std::vector<int> groups;
  for (const Packed* weight : weights) {
    if (weight->codes && std::find(groups.begin(), groups.end(), weight->group) == groups.end()) {
      groups.push_back(weight->group);
    }
  }
  return groups;
}

class LinearOp final : public Operation {
 public:
  LinearOp(const std::vector<const Packed*>& weights, Matrix in, std::vector<Matrix> outs, bool wanted_only,
           const Parts& parts)
      : weights_(weights),
        in_(in),
        outs_(std::move(outs)),
        planes_(parts.halves ? 2 : 1),
        tile_(kTilePlanes / planes_),
        wanted_only_(wanted_only) {
    const std::int64_t max_rows = wanted_only ? parts.options.max_wanted : parts.options.max_rows;
    const std::vector<int> groups = distinct_groups(weights);
    own_bytes_ = quantised_bytes(groups, in.width, few_rows(parts.options), planes_);
    lay_out(groups, max_rows, parts.scratch, shared_);
    lay_out(groups, few_rows(parts.options), parts.scratch, own_);
  }

  void run(const Step& step, int worker, int workers) override {
    const std::int64_t rows = wanted_only_ ? static_cast<std::int64_t>(step.args->wanted.size()) : step.rows;
    if (rows == 0) return;
    for (std::size_t i = 0; i < shared_.size(); ++i)
      prepare(step, inputs(step, i, worker), rows, worker, workers);
    if (!shared_.empty() && !step.few) step.barrier(worker);
    const std::int64_t portion = std::max<std::int64_t>(
        kTileRows, kInputBytes / (in_.width * (shared_.empty() ? 4 : planes_)) / kTileRows * kTileRows);
    for (std::int64_t first = 0; first < rows; first += portion) {
      const std::int64_t last = std::min(rows, first + portion);
      for (std::size_t j = 0; j < weights_.size(); ++j) {
        const Packed& weight = *weights_[j];
        const int begin = weight.first_block(worker, workers);
        const int end = weight.first_block(worker + 1, workers);
        if (begin == end) continue;
        if (weight.codes) {
          codes_product(step, weight, outs_[j], worker, {begin, end}, first, last);
        } else {
          plain_product(step, weight, outs_[j], worker, {begin, end}, first, last);
        }
      }
    }
  }

 private:
  const float* input(const Step& step, std::int64_t row, int worker) const {
    return step.of(in_, worker).row(wanted_only_ ? step.args->wanted[static_cast<std::size_t>(row)] : row);
  }

  /// The step's rows quantised for each group size, at `at`.
  void lay_out(const std::vector<int>& groups, std::int64_t rows, std::byte* at,
               std::vector<Quantised>& all) const {
    const auto take = [&at](std::int64_t bytes) {
      std::byte* begin = at;
      at += round_up(bytes, 64);
      return begin;
    };
    for (const int group : groups) {
      Quantised inputs;
      inputs.group = group;
      inputs.groups = static_cast<int>(in_.width / group);
      inputs.codes = reinterpret_cast<std::int8_t*>(take(rows * in_.width * planes_));
      inputs.scales = reinterpret_cast<float*>(take(rows * inputs.groups * 4));
      inputs.sums = reinterpret_cast<float*>(take(rows * inputs.groups * 4));
      all.push_back(inputs);
    }
  }

  Quantised inputs(const Step& step, std::size_t index, int worker) const {
    return step.few ? own_[index].of(worker, own_bytes_) : shared_[index];
  }

  /// Every worker all rows for itself in a short step, else its share of them for all.
  void prepare(const Step& step, const Quantised& inputs, std::int64_t rows, int worker, int workers) const {
    const Share share = step.few ? Share{0, rows} : share_of(rows, 1, worker, workers);
    for (std::int64_t row = share.first; row < share.last; ++row) {
      const std::int64_t tile = row / tile_ * tile_;
      QuantiseArgs args;
      args.in = input(step, row, worker);
      args.group = inputs.group;
      args.groups = inputs.groups;
      args.halves = planes_ == 2;
      args.rows = static_cast<int>(std::min<std::int64_t>(tile_, rows - tile));
      args.planes = args.rows * planes_;
      args.codes = inputs.codes + tile * in_.width * planes_ + 4 * (row - tile) * planes_;
      args.scales = inputs.scales + tile * inputs.groups + (row - tile);
      args.sums = inputs.sums + tile * inputs.groups + (row - tile);
      step.kernels->quantise(args);
    }
  }

  struct Blocks {
    int begin, end;
  };

  void codes_product(const Step& step, const Packed& weight, Matrix out, int worker, Blocks blocks,
                     std::int64_t first, std::int64_t last) const {
    const auto found = std::find_if(shared_.begin(), shared_.end(),
                                    [&](const Quantised& q) { return q.group == weight.group; });
    const Quantised inputs = this->inputs(step, static_cast<std::size_t>(found - shared_.begin()), worker);
    CodesArgs args;
    args.block_bytes = weight.block_bytes;
    args.bits = weight.bits;
    args.group = weight.group;
    args.groups = weight.groups;
    args.scale_format = weight.format;
    args.halves = planes_ == 2;
    args.out_stride = out.width;
    // Few rows: one call streams all blocks. Many: block after block, each read once for all tiles of rows.
    const int at_once = last - first <= tile_ ? blocks.end - blocks.begin : 1;
    for (int block = blocks.begin; block < blocks.end; block += at_once) {
      args.weights = weight.data + block * weight.block_bytes;
      args.blocks = at_once;
      args.outputs = static_cast<int>(weight.rows - static_cast<std::int64_t>(block) * kLanes);
      for (std::int64_t row = first; row < last; row += tile_) {
        args.rows = static_cast<int>(std::min<std::int64_t>(tile_, last - row));
        args.codes = inputs.codes + row * in_.width * planes_;
        args.scales = inputs.scales + row * inputs.groups;
        args.sums = inputs.sums + row * inputs.groups;
        args.out = out.row(row) + static_cast<std::int64_t>(block) * kLanes;
        step.kernels->codes_product(args);
      }
    }
  }

  void plain_product(const Step& step, const Packed& weight, Matrix out, int worker, Blocks blocks,
                     std::int64_t first, std::int64_t last) const {
    PlainArgs args;
    args.block_bytes = weight.block_bytes;
    args.format = weight.format;
    args.columns = weight.columns;
    args.out_stride = out.width;
    const float* in[kTileRows];
    args.in = in;
    // Two: independent chains at eight rows.
    const int at_once = last - first <= kTileRows ? blocks.end - blocks.begin : 2;
    for (int block = blocks.begin; block < blocks.end; block += at_once) {
      args.weights = weight.data + block * weight.block_bytes;
      args.blocks = std::min(at_once, blocks.end - block);
      args.outputs = static_cast<int>(weight.rows - static_cast<std::int64_t>(block) * kLanes);
      for (std::int64_t row = first; row < last; row += kTileRows) {
        args.rows = static_cast<int>(std::min<std::int64_t>(kTileRows, last - row));
        for (int m = 0; m < args.rows; ++m) in[m] = input(step, row + m, worker);
        args.out = out.row(row) + static_cast<std::int64_t>(block) * kLanes;
        step.kernels->plain_product(args);
      }
    }
  }

  std::vector<const Packed*> weights_;
  Matrix in_;
  std::vector<Matrix> outs_;
  std::vector<Quantised> shared_, own_;  // of a long step; of worker 0 in a short one
  int planes_;                           // of a quantised row
  int tile_;                             // rows of a tile
  std::int64_t own_bytes_ = 0;           // from a worker's quantised rows to the next one's in a short step
  bool wanted_only_;
};

}  // namespace

std::int64_t linear_scratch_bytes(const std::vector<const Packed*>& weights, int max_rows,
                                  const Parts& parts) {
  const std::vector<int> groups = distinct_groups(weights);
  const std::int64_t columns = weights.front()->columns;
  const int planes = parts.halves ? 2 : 1;
  return std::max(quantised_bytes(groups, columns, max_rows, planes),
                  parts.workers * quantised_bytes(groups, columns, few_rows(parts.options), planes));
}

std::unique_ptr<Operation> make_linear(const std::vector<const Packed*>& weights, Matrix in,
                                       std::vector<Matrix> outs, bool wanted_only, const Parts& parts) {
  return std::make_unique<LinearOp>(weights, in, std::move(outs), wanted_only, parts);
}

}  // namespace ft::cpu
