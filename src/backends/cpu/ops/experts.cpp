// Rows are grouped by expert, so that a step reads the weights of an expert once, and skips experts that no
// row is routed to. A `slot` is a row at one of its experts; slots are in order of expert, then of row.
#include <algorithm>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/ops/prepared_rows.h"
#include "backends/weight_rows.h"

namespace ft::cpu {
namespace {

constexpr int kManyRowsBlocks = 4;  // multiplied at once by more rows than a tile of kTileRows

/// The slots of each expert; every worker computes them for itself.
struct Slots {
  std::int32_t* begin = nullptr;   // [experts + 1]
  std::int32_t* cursor = nullptr;  // [experts]
  std::int32_t* place = nullptr;   // [slots] row * chosen + index in the row's route

  std::int64_t first(int expert) const { return begin[expert]; }
  int count(int expert) const { return begin[expert + 1] - begin[expert]; }
};

/// A worker's private memory, in floats of its scratch.
struct Own {
  Slots slots;
  std::vector<PreparedRows> gathered;                    // the rows of one expert, tile by tile
  float *gate = nullptr, *up = nullptr, *out = nullptr;  // of a tile and some blocks
};

/// Sizes and rows of one instruction.
struct Shape {
  Shape(const MoeMlp& op, const BuildContext& context)
      : experts(static_cast<int>(op.gate.size())),
        chosen(op.chosen()),
        size(op.size()),
        width(op.out.width),
        max_rows(context.options.max_rows),
        few_rows(small_batch_rows(context.options)) {
    const auto count = op.gate.size();
    inputs = prepared_for(context.packed.first(2 * count), op.in.width, context);
    inner = prepared_for(context.packed.subspan(2 * count), size, context);
  }
  std::int64_t slots(std::int64_t rows) const { return rows * chosen; }
  std::int64_t inner_bytes() const { return round_up(slots(max_rows) * size * 4, 64); }
  std::int64_t few_input_bytes() const { return prepared_bytes(inputs, few_rows); }
  std::int64_t few_inner_bytes() const { return prepared_bytes(inner, slots(few_rows)); }
  std::int64_t input_bytes(int workers) const {
    return std::max(prepared_bytes(inputs, max_rows), workers * few_input_bytes());
  }
  std::int64_t prepared_inner_bytes(int workers) const {
    return std::max(prepared_bytes(inner, slots(max_rows)), workers * few_inner_bytes());
  }
  /// All blocks of few rows, or a few blocks of many.
  static std::int64_t tile_floats(std::int64_t columns) {
    return std::max<std::int64_t>(kTileRows * round_up(columns, kLanes),
                                  kMatrixRows * kManyRowsBlocks * kLanes);
  }
  std::int64_t list_floats() const { return round_up(2 * experts + 1 + slots(max_rows), kLanes); }
  std::int64_t own_floats() const {
    return list_floats() + prepared_bytes(inputs, max_rows) / 4 + 2 * tile_floats(size) + tile_floats(width);
  }

  int experts, chosen;
  std::int64_t size, width, max_rows, few_rows;
  std::vector<PreparedRows> inputs, inner;  // shapes
};

class ExpertsOp final : public Operation {
 public:
  ExpertsOp(const MoeMlp& op, const BuildContext& context)
      : shape_(op, context),
        in_(context.matrix(op.in)),
        routes_(context.matrix(op.routes)),
        out_(context.matrix(op.out)),
        int16_(context.int16),
        activation_(op.activation),
        alpha_(op.alpha),
        limit_(op.limit),
        gate_bias_(floats(op.gate_bias)),
        up_bias_(floats(op.up_bias)),
        down_bias_(floats(op.down_bias)) {
    const std::size_t count = op.gate.size();
    gate_.assign(context.packed.begin(), context.packed.begin() + static_cast<std::ptrdiff_t>(count));
    up_.assign(context.packed.begin() + static_cast<std::ptrdiff_t>(count),
               context.packed.begin() + static_cast<std::ptrdiff_t>(2 * count));
    down_.assign(context.packed.begin() + static_cast<std::ptrdiff_t>(2 * count), context.packed.end());
    std::byte* at = context.scratch;
    inner_ = reinterpret_cast<float*>(at);
    at += shape_.inner_bytes();
    shared_inputs_ = place(shape_.inputs, shape_.max_rows, at);
    few_inputs_ = place(shape_.inputs, shape_.few_rows, at);
    at += shape_.input_bytes(context.workers);
    shared_inner_ = place(shape_.inner, shape_.slots(shape_.max_rows), at);
    few_inner_ = place(shape_.inner, shape_.slots(shape_.few_rows), at);
    for (int worker = 0; worker < context.workers; ++worker)
      own_.push_back(lay_out(context.worker_scratch + worker * context.worker_floats));
    plain_inputs_ =
        find_prepared(shape_.inputs, *gate_.front()) < 0 || find_prepared(shape_.inputs, *up_.front()) < 0;
  }

  void run(const Step& step, int worker, int workers) override {
    Own& own = own_[static_cast<std::size_t>(worker)];
    find_slots(step.of(routes_, worker), step.rows, own.slots);
    prepare_inputs(step, worker, workers);
    if (!step.small_batch && !shape_.inputs.empty()) step.barrier(worker);
    each_part(own.slots, worker, workers,
              [&](int expert, BlockRange blocks) { inner_products(step, own, worker, expert, blocks); });
    step.barrier(worker);
    prepare_inner(step, own.slots, worker, workers);
    if (!step.small_batch && !shape_.inner.empty()) step.barrier(worker);
    sum_outputs(step, own, worker, workers);
  }

 private:
  static std::vector<float> floats(const Weight& weight) {
    std::vector<float> values(static_cast<std::size_t>(weight.empty() ? 0 : weight.rows * weight.cols));
    if (!weight.empty()) read_rows(weight, 0, weight.rows, values.data());
    return values;
  }

  static std::vector<PreparedRows> place(std::vector<PreparedRows> all, std::int64_t rows, std::byte* at) {
    for (PreparedRows& each : all) at = each.place(at, rows);
    return all;
  }

  Own lay_out(float* at) const {
    Own own;
    own.slots.begin = reinterpret_cast<std::int32_t*>(at);
    own.slots.cursor = own.slots.begin + shape_.experts + 1;
    own.slots.place = own.slots.cursor + shape_.experts;
    at += shape_.list_floats();
    own.gathered = place(shape_.inputs, shape_.max_rows, reinterpret_cast<std::byte*>(at));
    at += prepared_bytes(shape_.inputs, shape_.max_rows) / 4;
    own.gate = at;
    own.up = own.gate + shape_.tile_floats(shape_.size);
    own.out = own.up + shape_.tile_floats(shape_.size);
    return own;
  }

  /// Rows of a tile of an expert with `count` of them.
  static int tile_rows(const Kernels& kernels, const std::vector<PreparedRows>& ways, bool plain, int count) {
    int rows = plain ? kTileRows : kMatrixRows;
    for (const PreparedRows& way : ways) rows = std::min(rows, way.arranged(kernels, count).tile_rows());
    return rows;
  }
  int input_tile(const Step& step, int count) const {
    return tile_rows(*step.kernels, shape_.inputs, plain_inputs_, count);
  }
  int inner_tile(const Step& step, int count) const {
    return tile_rows(*step.kernels, shape_.inner, shape_.inner.empty(), count);
  }
  /// Blocks that share a tile: all of them where the rows are few, so that weights are read as one stream.
  static int blocks_of(int count, const Packed& weight, BlockRange blocks) {
    if (count <= kTileRows) return blocks.last - blocks.first;
    return std::max(blocks_at_once(weight), std::min(kManyRowsBlocks, blocks.last - blocks.first));
  }

  /// Sorts by counting.
  void find_slots(Matrix routes, int rows, const Slots& slots) const {
    std::fill_n(slots.begin, shape_.experts + 1, 0);
    const auto expert_of = [&](std::int64_t row, int j) { return static_cast<int>(routes.row(row)[j]); };
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int j = 0; j < shape_.chosen; ++j) ++slots.begin[expert_of(r, j) + 1];
    }
    for (int e = 0; e < shape_.experts; ++e) {
      slots.begin[e + 1] += slots.begin[e];
      slots.cursor[e] = slots.begin[e];
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int j = 0; j < shape_.chosen; ++j)
        slots.place[slots.cursor[expert_of(r, j)]++] = static_cast<std::int32_t>(r * shape_.chosen + j);
    }
  }

  /// Each row as a separate tile. In a small batch every worker prepares all of them for itself.
  void prepare_inputs(const Step& step, int worker, int workers) const {
    const Range range = step.small_batch ? Range{0, step.rows} : partition(step.rows, 1, worker, workers);
    for (std::size_t i = 0; i < shape_.inputs.size(); ++i) {
      const PreparedRows rows = inputs(step, i, worker);
      for (std::int64_t r = range.first; r < range.last; ++r)
        rows.write(*step.kernels, step.of(in_, worker).row(r), {r, 0, 1});
    }
  }
  PreparedRows inputs(const Step& step, std::size_t index, int worker) const {
    return step.small_batch ? few_inputs_[index].shifted(worker * shape_.few_input_bytes())
                            : shared_inputs_[index];
  }
  PreparedRows prepared_inner(const Step& step, int worker) const {
    return step.small_batch ? few_inner_.front().shifted(worker * shape_.few_inner_bytes())
                            : shared_inner_.front();
  }

  /// Calls work(expert, blocks) for this worker's share of the gate and up products: the experts in order,
  /// cut between blocks so that the shares are equal.
  template <class Work>
  void each_part(const Slots& slots, int worker, int workers, const Work& work) const {
    constexpr std::int64_t kReading = 3;  // reading a block once costs about as much as three rows of it
    const std::int64_t blocks = gate_.front()->blocks;
    const auto cost = [&](int e) { return slots.count(e) == 0 ? 0 : slots.count(e) + kReading; };
    std::int64_t total = 0;
    for (int e = 0; e < shape_.experts; ++e) total += cost(e) * blocks;
    const std::int64_t begin = total * worker / workers, end = total * (worker + 1) / workers;
    std::int64_t at = 0;
    for (int e = 0; e < shape_.experts; ++e) {
      const std::int64_t each = cost(e);
      if (each == 0) continue;
      const auto block_at = [&](std::int64_t place) {
        const std::int64_t beyond = std::max<std::int64_t>(place - at, 0);
        return static_cast<int>(std::min((beyond + each - 1) / each, blocks));
      };
      const BlockRange own{block_at(begin), block_at(end)};
      if (own.first < own.last) work(e, own);
      at += each * blocks;
    }
  }

  /// inner = activation(gate * in) * (up * in) of the expert's slots, for some blocks of outputs.
  void inner_products(const Step& step, const Own& own, int worker, int expert, BlockRange blocks) const {
    const int count = own.slots.count(expert);
    const std::int32_t* places = own.slots.place + own.slots.first(expert);
    gather(step, own, worker, places, count);
    const auto index = static_cast<std::size_t>(expert);
    const int at_once = blocks_of(count, *gate_.front(), blocks), tile = input_tile(step, count);
    const std::int64_t stride = std::int64_t{at_once} * kLanes;
    for (int block = blocks.first; block < blocks.last; block += at_once) {
      const BlockRange some{block, std::min(block + at_once, blocks.last)};
      const std::int64_t column = static_cast<std::int64_t>(block) * kLanes;
      const std::int64_t columns = std::min<std::int64_t>(some.last * kLanes, shape_.size) - column;
      for (int first = 0; first < count; first += tile) {
        const int rows = std::min(tile, count - first);
        const Part part{first, rows, count};
        input_product(step, own, worker, *gate_[index], places + first, part, some, {own.gate, stride});
        input_product(step, own, worker, *up_[index], places + first, part, some, {own.up, stride});
        const std::int64_t place = std::int64_t{expert} * shape_.size + column;
        for (int r = 0; r < rows; ++r) {
          float *const gate = own.gate + r * stride, *const up = own.up + r * stride;
          add_bias(step, gate_bias_, place, columns, gate);
          add_bias(step, up_bias_, place, columns, up);
          activate(step, gate, up, columns,
                   inner_ + (own.slots.first(expert) + first + r) * shape_.size + column);
        }
      }
    }
  }

  /// values += the biases from `place` on, if there are any.
  static void add_bias(const Step& step, const std::vector<float>& biases, std::int64_t place,
                       std::int64_t columns, float* values) {
    if (!biases.empty()) step.kernels->add(values, biases.data() + place, columns, values);
  }

  void activate(const Step& step, const float* gate, const float* up, std::int64_t columns,
                float* out) const {
    const Kernels& kernels = *step.kernels;
    switch (activation_) {
      case Activation::kSilu:
        return kernels.swiglu(gate, up, columns, out);
      case Activation::kGeluTanh:
        return kernels.geglu(gate, up, columns, out);
      case Activation::kClampedSwiglu:
        return kernels.clamped_swiglu(gate, up, columns, alpha_, limit_, out);
    }
  }

  /// Part of an expert's slots.
  struct Part {
    int first, rows, count;
  };
  /// The destination of a product.
  struct Target {
    float* out;
    std::int64_t stride;
  };

  /// An expert with one row takes the row as it is.
  void gather(const Step& step, const Own& own, int worker, const std::int32_t* places, int count) const {
    if (count == 1) return;
    const int most = input_tile(step, count);
    for (std::size_t i = 0; i < own.gathered.size(); ++i) {
      const PreparedRows from = inputs(step, i, worker);
      const PreparedRows to = own.gathered[i].arranged(*step.kernels, count);
      for (int s = 0; s < count; ++s) {
        const int tile = s / most * most;
        to.copy(from, places[s] / shape_.chosen, {tile, s - tile, std::min(most, count - tile)});
      }
    }
  }

  void input_product(const Step& step, const Own& own, int worker, const Packed& weight,
                     const std::int32_t* places, Part part, BlockRange blocks, Target to) const {
    const float* plain[kTileRows];
    Tile tile;
    tile.rows = part.rows, tile.plain = plain;
    const int prepared = find_prepared(shape_.inputs, weight);
    if (prepared < 0) {
      for (int r = 0; r < part.rows; ++r) plain[r] = step.of(in_, worker).row(places[r] / shape_.chosen);
    } else if (part.count == 1) {
      tile = inputs(step, static_cast<std::size_t>(prepared), worker).tile(places[0] / shape_.chosen, 1);
    } else {
      const PreparedRows& rows = own.gathered[static_cast<std::size_t>(prepared)];
      tile = rows.arranged(*step.kernels, part.count).tile(part.first, part.rows);
    }
    multiply(*step.kernels, weight, int16_, tile, blocks, to.out, to.stride);
  }

  /// The inner rows in tiles of an expert's slots.
  void prepare_inner(const Step& step, const Slots& slots, int worker, int workers) const {
    if (shape_.inner.empty()) return;
    const std::int64_t all = shape_.slots(step.rows);
    const Range range = step.small_batch ? Range{0, all} : partition(all, 1, worker, workers);
    const PreparedRows to = prepared_inner(step, worker);
    for (int e = 0; e < shape_.experts; ++e) {
      const std::int64_t begin = slots.first(e), end = begin + slots.count(e);
      const int most = inner_tile(step, slots.count(e));
      const PreparedRows arranged = to.arranged(*step.kernels, slots.count(e));
      for (std::int64_t s = std::max(begin, range.first); s < std::min(end, range.last); ++s) {
        const std::int64_t tile = begin + (s - begin) / most * most;
        arranged.write(
            *step.kernels, inner_ + s * shape_.size,
            {tile, static_cast<int>(s - tile), static_cast<int>(std::min<std::int64_t>(most, end - tile))});
      }
    }
  }

  /// out = the sum over the experts in order, for this worker's columns.
  void sum_outputs(const Step& step, const Own& own, int worker, int workers) const {
    const BlockRange blocks{down_.front()->first_block(worker, workers),
                            down_.front()->first_block(worker + 1, workers)};
    const std::int64_t column = std::int64_t{blocks.first} * kLanes;
    const std::int64_t columns =
        std::min<std::int64_t>(std::int64_t{blocks.last} * kLanes, shape_.width) - column;
    if (columns <= 0) return;
    for (std::int64_t r = 0; r < step.rows; ++r) std::fill_n(out_.row(r) + column, columns, 0.0F);
    for (int e = 0; e < shape_.experts; ++e) {
      const int count = own.slots.count(e);
      const int at_once = blocks_of(count, *down_.front(), blocks);
      for (int block = blocks.first; block < blocks.last && count > 0; block += at_once)
        add_expert(step, own, worker, e, {block, std::min(block + at_once, blocks.last)});
    }
  }

  void add_expert(const Step& step, const Own& own, int worker, int expert, BlockRange blocks) const {
    const std::int64_t begin = own.slots.first(expert), end = begin + own.slots.count(expert);
    const std::int64_t column = std::int64_t{blocks.first} * kLanes;
    const std::int64_t columns =
        std::min<std::int64_t>(std::int64_t{blocks.last} * kLanes, shape_.width) - column;
    const std::int64_t stride = round_up(columns, kLanes);
    const int count = own.slots.count(expert), most = inner_tile(step, count);
    const float* plain[kTileRows];
    const Matrix routes = step.of(routes_, worker);
    for (std::int64_t first = begin; first < end; first += most) {
      Tile tile;
      tile.rows = static_cast<int>(std::min<std::int64_t>(most, end - first)), tile.plain = plain;
      if (shape_.inner.empty()) {
        for (int r = 0; r < tile.rows; ++r) plain[r] = inner_ + (first + r) * shape_.size;
      } else {
        tile = prepared_inner(step, worker).arranged(*step.kernels, count).tile(first, tile.rows);
      }
      multiply(*step.kernels, *down_[static_cast<std::size_t>(expert)], int16_, tile, blocks, own.out,
               stride);
      for (int r = 0; r < tile.rows; ++r) {
        const std::int32_t place = own.slots.place[first + r];
        const std::int64_t row = place / shape_.chosen;
        add_bias(step, down_bias_, std::int64_t{expert} * shape_.width + column, columns,
                 own.out + r * stride);
        step.kernels->add_scaled(own.out + r * stride, routes.row(row)[shape_.chosen + place % shape_.chosen],
                                 columns, out_.row(row) + column);
      }
    }
  }

  Shape shape_;
  Matrix in_, routes_, out_;
  bool int16_;
  Activation activation_;
  float alpha_, limit_;
  std::vector<float> gate_bias_, up_bias_, down_bias_;    // [experts, size], [experts, width], or empty
  std::vector<const Packed*> gate_, up_, down_;           // [experts]
  std::vector<PreparedRows> shared_inputs_, few_inputs_;  // of a large batch; of worker 0 in a small one
  std::vector<PreparedRows> shared_inner_, few_inner_;    // none or one
  float* inner_ = nullptr;                                // [slots, size]
  std::vector<Own> own_;                                  // [workers]
  bool plain_inputs_ = false;                             // gate or up take rows as they are
};

}  // namespace

Needs needs(const MoeMlp& op, const BuildContext& context) {
  const Shape shape(op, context);
  return {
      shape.inner_bytes() + shape.input_bytes(context.workers) + shape.prepared_inner_bytes(context.workers),
      shape.own_floats()};
}

std::unique_ptr<Operation> make(const MoeMlp& op, const BuildContext& context) {
  return std::make_unique<ExpertsOp>(op, context);
}

}  // namespace ft::cpu
