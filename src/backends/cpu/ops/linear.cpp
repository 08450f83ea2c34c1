#include <algorithm>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/ops/claims.h"
#include "backends/cpu/ops/early_rows.h"
#include "backends/cpu/ops/prepared_rows.h"
#include "backends/cpu/ops/rows_of_others.h"

namespace ft::cpu {
namespace {

// The rows of a large batch are taken in portions whose input stays in a core's second cache while the
// weights stream through.
constexpr std::int64_t kInputBytes = 384 << 10;

// A worker's part is in pieces, about two microseconds of a small batch; waiting workers may take them.
constexpr std::int64_t kPieceBytes = 24 << 10;

class LinearOp final : public Operation {
 public:
  LinearOp(LinearParts linear, const BuildContext& context)
      : weights_(std::move(linear.weights)),
        in_(linear.in),
        outs_(std::move(linear.outs)),
        int16_(context.int16),
        logit_rows_only_(linear.logit_rows_only),
        softcap_(linear.softcap) {
    const std::int64_t max_rows =
        logit_rows_only_ ? context.options.max_logit_rows : context.options.max_rows;
    shared_ = own_ = prepared_for(weights_, in_.width, context);
    own_bytes_ = prepared_bytes(own_, small_batch_rows(context.options));
    place(shared_, max_rows, context.scratch);
    small_rows_ = small_batch_rows(context.options);
    place(own_, small_rows_, context.scratch);
    for (const PreparedRows& rows : shared_) row_bytes_ = std::max(row_bytes_, rows.row_bytes);
    if (shared_.empty()) row_bytes_ = in_.width * 4;
    if (context.workers >= kMinSharingWorkers)
      claims_ = std::vector<Claims>(static_cast<std::size_t>(context.workers));
  }

  void run(const Step& step, int worker, int workers) override {
    const std::int64_t rows = rows_of(step);
    if (rows == 0) return;
    for (std::size_t i = 0; i < shared_.size() && !has_early_rows(step, workers); ++i)
      prepare(step, inputs(step, i, worker, rows), rows, worker, workers);
    if (!shared_.empty() && !step.small_batch) step.barrier(worker);
    if (workers >= kMinSharingWorkers) return run_pieces(step, worker, workers);
    const std::int64_t portion = portion_rows(step, rows);
    for (std::int64_t first = 0; first < rows; first += portion) {
      const std::int64_t last = std::min(rows, first + portion);
      for (std::size_t j = 0; j < weights_.size(); ++j) {
        const Packed& weight = *weights_[j];
        const int begin = weight.first_block(worker, workers);
        const int end = weight.first_block(worker + 1, workers);
        if (begin == end) continue;
        outputs(step, {j, {begin, end}}, worker, {first, last, rows});
      }
    }
  }

  bool shares() const override { return !claims_.empty(); }

  bool help(const Step& step, int worker, int owner, int workers) override {
    return workers >= kMinSharingWorkers && rows_of(step) > 0 &&
           take_piece(step, worker, part_of(step, owner, workers));
  }

  bool prepare_early(int workers, Split split) override {
    if (logit_rows_only_ || workers < kMinSharingWorkers) return false;
    if (early_ == nullptr) early_ = std::make_unique<EarlyRows>(shared_, in_.width, small_rows_);
    if (early_->possible()) early_->use(workers, split);
    return early_->used(workers);
  }

  void prepare_early(const Step& step, int worker, int workers) override {
    early_->prepare(step, in_, worker, workers);
  }

  ReadAhead::Weights weights() const override { return weights_; }

 private:
  /// Rows [first, last) of `all`.
  struct Portion {
    std::int64_t first, last, all;
    bool early = false;  // they are early rows
  };
  /// Outputs of one weight.
  struct Piece {
    std::size_t weight;
    BlockRange blocks;
  };
  /// The part of one of `workers` workers: `pieces` of each portion of the rows.
  struct Part {
    int owner, workers;
    int pieces, portions;

    int all() const { return pieces * portions; }
  };

  std::int64_t rows_of(const Step& step) const {
    return logit_rows_only_ ? static_cast<std::int64_t>(step.args->logit_rows.size()) : step.rows;
  }

  /// Rows of a portion: all of a small batch.
  std::int64_t portion_rows(const Step& step, std::int64_t rows) const {
    if (step.small_batch) return rows;
    const bool matrix = std::ranges::any_of(
        shared_, [&](const PreparedRows& each) { return each.arranged(*step.kernels, rows).matrix; });
    const std::int64_t whole = matrix ? kMatrixRows : kTileRows;  // a portion is a multiple of it
    return std::max<std::int64_t>(whole, kInputBytes / row_bytes_ / whole * whole);
  }

  // ---- several workers, which take pieces of each other's parts ----

  /// Blocks of a worker's part of a weight that are multiplied at a time.
  int piece_blocks(const Packed& weight, int blocks, int portions) const {
    const auto most = std::max<std::int64_t>(
        1, Claims::kMaxPieces / (static_cast<std::int64_t>(weights_.size()) * portions));
    return static_cast<int>(
        std::max({std::int64_t{1}, kPieceBytes / weight.block_bytes, (blocks + most - 1) / most}));
  }

  /// Calls each(weight, its blocks of the part, blocks of a piece) until it returns false.
  template <class Each>
  void each_weight(const Part& part, const Each& each) const {
    for (std::size_t j = 0; j < weights_.size(); ++j) {
      const Packed& weight = *weights_[j];
      const BlockRange blocks{weight.first_block(part.owner, part.workers),
                              weight.first_block(part.owner + 1, part.workers)};
      if (!each(j, blocks, piece_blocks(weight, blocks.last - blocks.first, part.portions))) return;
    }
  }

  Part part_of(const Step& step, int owner, int workers) const {
    const std::int64_t rows = rows_of(step);
    const std::int64_t portion = portion_rows(step, rows);
    Part part{owner, workers, 0, static_cast<int>((rows + portion - 1) / portion)};
    each_weight(part, [&](std::size_t, BlockRange blocks, int step_blocks) {
      part.pieces += (blocks.last - blocks.first + step_blocks - 1) / step_blocks;
      return true;
    });
    return part;
  }

  Piece piece_of(const Part& part, int index) const {
    Piece piece{};
    each_weight(part, [&](std::size_t weight, BlockRange blocks, int step_blocks) {
      const int first = blocks.first + index * step_blocks;
      index -= (blocks.last - blocks.first + step_blocks - 1) / step_blocks;
      piece = {weight, {first, std::min(blocks.last, first + step_blocks)}};
      return index >= 0;
    });
    return piece;
  }

  /// In a small batch `worker` multiplies the rows that it prepared itself, so a piece's bits do not depend
  /// on the worker that takes it. In a large one all rows were ready at the operation's barrier.
  bool take_piece(const Step& step, int worker, const Part& part) {
    Claims& claims = claims_[static_cast<std::size_t>(part.owner)];
    const int taken = claims.take(step.number, part.all());
    if (taken < 0) return false;
    const std::int64_t rows = rows_of(step);
    const std::int64_t portion = portion_rows(step, rows);
    const std::int64_t first = taken / part.pieces * portion;
    const Portion taken_rows{first, std::min(rows, first + portion), rows,
                             has_early_rows(step, part.workers)};
    outputs(step, piece_of(part, taken % part.pieces), worker, taken_rows);
    claims.finish();
    return true;
  }

  /// The part of `worker`. The next operation may read its outputs without a barrier, so all must be done.
  void run_pieces(const Step& step, int worker, int workers) {
    const Part part = part_of(step, worker, workers);
    if (part.all() == 0) return;
    while (take_piece(step, worker, part)) {
    }
    claims_[static_cast<std::size_t>(worker)].wait(part.all());
  }

  // ---- products ----

  bool has_early_rows(const Step& step, int workers) const {
    return step.small_batch && early_ != nullptr && early_->used(workers);
  }

  const float* input(const Step& step, std::int64_t row, int worker) const {
    return step.of(in_, worker)
        .row(logit_rows_only_ ? step.args->logit_rows[static_cast<std::size_t>(row)] : row);
  }

  /// Places the step's prepared rows in the instruction's scratch.
  static void place(std::vector<PreparedRows>& all, std::int64_t rows, std::byte* at) {
    for (PreparedRows& each : all) at = each.place(at, rows);
  }

  /// The prepared rows as `worker` sees them in a product of `rows` rows.
  PreparedRows inputs(const Step& step, std::size_t index, int worker, std::int64_t rows) const {
    const PreparedRows seen = step.small_batch ? own_[index].shifted(worker * own_bytes_) : shared_[index];
    return seen.arranged(*step.kernels, rows);
  }

  /// In a small batch every worker prepares all rows for itself; in a large one, its range of rows for all.
  void prepare(const Step& step, const PreparedRows& inputs, std::int64_t rows, int worker,
               int workers) const {
    const auto in = [&](std::int64_t row) { return input(step, row, worker); };
    const auto write = [&](std::int64_t row) {
      inputs.write(*step.kernels, in(row), inputs.place_of(row, rows));
    };
    const bool others = in_.copy == 0 && workers > 1;  // wrote the rows
    if (step.small_batch && others) return for_rows_in_turn(rows, in_.width, worker, in, write);
    const Range range = step.small_batch ? Range{0, rows} : partition(rows, 1, worker, workers);
    for (std::int64_t row = range.first; row < range.last; ++row) write(row);
  }

  void outputs(const Step& step, Piece piece, int worker, Portion rows) const {
    const Packed& weight = *weights_[piece.weight];
    product(step, weight, outs_[piece.weight], worker, piece.blocks, rows);
    if (softcap_ > 0) cap(step, weight, outs_[piece.weight], piece.blocks, rows.first, rows.last);
  }

  /// Tiles of rows of a portion. A small batch is one call that streams all blocks. A large batch reads
  /// each few blocks once for all tiles of rows.
  void product(const Step& step, const Packed& weight, Matrix out, int worker, BlockRange blocks,
               Portion portion) const {
    const auto [first, last, all, early] = portion;
    const int prepared = find_prepared(shared_, weight);
    PreparedRows rows;
    if (prepared >= 0) {
      const auto index = static_cast<std::size_t>(prepared);
      rows = early ? early_->rows(index).arranged(*step.kernels, all) : inputs(step, index, worker, all);
    }
    const int tile_rows = prepared < 0 ? kTileRows : rows.tile_rows();
    const int at_once = last - first <= tile_rows ? blocks.last - blocks.first : blocks_at_once(weight);
    const float* plain[kTileRows];
    for (int block = blocks.first; block < blocks.last; block += at_once) {
      for (std::int64_t row = first; row < last; row += tile_rows) {
        Tile tile;
        tile.rows = static_cast<int>(std::min<std::int64_t>(tile_rows, last - row));
        tile.plain = plain;
        for (int m = 0; prepared < 0 && m < tile.rows; ++m) plain[m] = input(step, row + m, worker);
        if (prepared >= 0) tile = rows.tile(row, tile.rows);
        multiply(*step.kernels, weight, int16_, tile, {block, std::min(block + at_once, blocks.last)},
                 out.row(row) + static_cast<std::int64_t>(block) * kLanes, out.width);
      }
    }
  }

  /// Applies the soft cap to the outputs that this worker has just written.
  void cap(const Step& step, const Packed& weight, Matrix out, BlockRange blocks, std::int64_t first,
           std::int64_t last) const {
    const std::int64_t begin = static_cast<std::int64_t>(blocks.first) * kLanes;
    const std::int64_t end = std::min<std::int64_t>(weight.rows, std::int64_t{blocks.last} * kLanes);
    for (std::int64_t row = first; row < last; ++row)
      step.kernels->softcap(out.row(row) + begin, end - begin, softcap_);
  }

  std::vector<const Packed*> weights_;
  Matrix in_;
  std::vector<Matrix> outs_;
  std::vector<PreparedRows> shared_, own_;  // of a large batch; of worker 0 in a small one
  bool int16_;
  int small_rows_ = 0;                // maximum rows of a small batch
  std::unique_ptr<EarlyRows> early_;  // null: every worker prepares all rows of a small batch
  std::int64_t own_bytes_ = 0;        // bytes between two workers' rows in a small batch
  std::int64_t row_bytes_ = 0;        // maximum bytes of a prepared row
  std::vector<Claims> claims_;        // [workers], if workers may share their parts
  bool logit_rows_only_;
  float softcap_;  // 0: none
};

}  // namespace

std::int64_t linear_scratch_bytes(std::span<const Packed* const> weights, int max_rows,
                                  const BuildContext& context) {
  const std::vector<PreparedRows> prepared = prepared_for(weights, weights.front()->columns, context);
  return std::max(prepared_bytes(prepared, max_rows),
                  context.workers * prepared_bytes(prepared, small_batch_rows(context.options)));
}

Needs needs(const Linear& /*op*/, const BuildContext& context) {
  return {linear_scratch_bytes(context.packed, context.options.max_rows, context), 0};
}

std::unique_ptr<Operation> make_linear(LinearParts linear, const BuildContext& context) {
  return std::make_unique<LinearOp>(std::move(linear), context);
}

std::unique_ptr<Operation> make(const Linear& op, const BuildContext& context) {
  LinearParts linear{{context.packed.begin(), context.packed.end()}, context.matrix(op.in), {}, false, 0};
  for (const Row out : op.outs) linear.outs.push_back(context.matrix(out));
  return make_linear(std::move(linear), context);
}

}  // namespace ft::cpu
