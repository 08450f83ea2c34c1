#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"
#include "backends/weight_rows.h"
#include "sampling/exp_log.h"

namespace ft::cpu {
namespace {

float softplus(float x) {
  const double tail = log_of_positive(1.0 + exp_of_negative(-std::abs(static_cast<double>(x))));
  return static_cast<float>(std::max(static_cast<double>(x), 0.0) + tail);
}

float sigmoid(float x) {
  const double small = exp_of_negative(-std::abs(static_cast<double>(x)));
  return static_cast<float>((x >= 0 ? 1.0 : small) / (1.0 + small));
}

constexpr int kConfirmedRows = 16;  // confirmed rows prepared at a time
constexpr int kPreparedRows = kConfirmedRows + kMaxTapeRows;

/// The inputs of one value head and one row, for any column.
struct Prepared {
  float *q = nullptr, *k = nullptr;  // [key_dim], normalised
  float decay = 0, beta = 0, key_query = 0;
};

/// Items are (segment, value head, tile of columns). The columns of a state are independent, so a tile stays
/// in the first cache for all tokens of the step. Memory is read and written once.
class DeltaRuleOp final : public Operation {
 public:
  DeltaRuleOp(const DeltaRule& op, const BuildContext& context)
      : op_(op),
        in_(context.matrix(op.in)),
        a_(context.matrix(op.a)),
        b_(context.matrix(op.b)),
        out_(context.matrix(op.out)),
        worker_scratch_(context.worker_scratch),
        worker_floats_(context.worker_floats),
        decay_(static_cast<std::size_t>(op.value_heads)),
        dt_bias_(static_cast<std::size_t>(op.value_heads)) {
    read_rows(op.a_log, 0, 1, decay_.data());
    read_rows(op.dt_bias, 0, 1, dt_bias_.data());
    for (float& decay : decay_) decay = std::exp(decay);
  }

  void run(const Step& step, int worker, int workers) override {
    const int padded = step.state->delta(op_.state).padded;
    const int tiles = (padded + kDeltaTile - 1) / kDeltaTile;
    std::int64_t first_row = 0;
    if (step.small_batch && heads_divide(op_.value_heads, workers)) {
      // The same value heads for every segment, so a reader of one value head in all rows need not wait.
      const Range range = partition(op_.value_heads, 1, worker, workers);
      for (const Segment& segment : step.args->segments) {
        for (std::int64_t head = range.first; head < range.last; ++head)
          run_head({step, segment, first_row, static_cast<int>(head), worker}, 0, tiles);
        first_row += segment.rows;
      }
      return;
    }
    const auto items = static_cast<std::int64_t>(step.args->segments.size()) * op_.value_heads * tiles;
    const Range range = partition(items, 1, worker, workers);
    std::int64_t item = 0;
    for (const Segment& segment : step.args->segments) {
      for (int head = 0; head < op_.value_heads; ++head, item += tiles) {
        const auto first = static_cast<int>(std::clamp<std::int64_t>(range.first - item, 0, tiles));
        const auto last = static_cast<int>(std::clamp<std::int64_t>(range.last - item, 0, tiles));
        if (first < last) run_head({step, segment, first_row, head, worker}, first, last);
      }
      first_row += segment.rows;
    }
  }

 private:
  /// One value head of one segment.
  struct Head {
    const Step& step;
    const Segment& segment;
    std::int64_t first_row;
    int head, worker;
  };

  /// The offsets of the parts of a tape entry.
  struct Entry {
    float* k;  // [key_heads, key_dim]
    float* d;  // [value_heads, padded]
    float* g;  // [value_heads]
  };
  Entry entry(const Head& at, int which, int row) const {
    const CpuState::Delta& delta = at.step.state->delta(op_.state);
    float* k = at.step.state->tape(delta, at.segment.sequence.slot, which, row);
    float* d = k + static_cast<std::int64_t>(op_.key_heads) * op_.key_dim;
    return {k, d, d + static_cast<std::int64_t>(op_.value_heads) * delta.padded};
  }

  int group() const { return op_.value_heads / op_.key_heads; }
  std::int64_t key_at(int head) const { return static_cast<std::int64_t>(head / group()) * op_.key_dim; }

  /// A worker's own memory for a tile, after the prepared rows.
  struct Scratch {
    float *v, *y;  // [kDeltaTile]
    float* d[2];   // [kDeltaTile] of the previous row and of this one
    float* ahead;  // [key_dim, kDeltaTile] the state after unconfirmed rows
  };
  Scratch tile_scratch(int worker) const {
    float* v = worker_scratch_ + worker * worker_floats_ +
               round_up(static_cast<std::int64_t>(2 * kPreparedRows) * op_.key_dim, kLanes);
    return {v, v + kDeltaTile, {v + 2 * kDeltaTile, v + 3 * kDeltaTile}, v + 4 * kDeltaTile};
  }

  /// Tiles [first, last) of the value head. Rows are prepared once for all these tiles.
  void run_head(const Head& at, int first, int last) const {
    Prepared rows[kPreparedRows];
    float* scratch = worker_scratch_ + at.worker * worker_floats_;
    for (Prepared& row : rows) {
      row.q = scratch;
      row.k = scratch + op_.key_dim;
      scratch += 2 * op_.key_dim;
    }
    const Segment& segment = at.segment;
    for (int begin = 0; begin < segment.rows;) {
      const int confirmed = std::max(0, segment.confirmed - begin);
      const int count = confirmed > kConfirmedRows ? kConfirmedRows : segment.rows - begin;
      for (int r = 0; r < count; ++r) prepare(at, begin + r, rows[r]);
      for (int tile = first; tile < last; ++tile)
        run_tile(at, tile, begin, {rows, static_cast<std::size_t>(count)});
      for (int r = confirmed; first == 0 && r < count; ++r) keep(at, begin + r, rows[r]);
      begin += count;
    }
  }

  void prepare(const Head& at, int row, Prepared& out) const {
    const std::int64_t r = at.first_row + row;
    const float* in = at.step.of(in_, at.worker).row(r) + key_at(at.head);
    const auto head = static_cast<std::size_t>(at.head);
    const Kernels& kernels = *at.step.kernels;
    kernels.l2_norm(in, op_.key_dim, 1.0F / std::sqrt(static_cast<float>(op_.key_dim)), out.q);
    kernels.l2_norm(in + static_cast<std::int64_t>(op_.key_heads) * op_.key_dim, op_.key_dim, 1, out.k);
    out.key_query = kernels.dot(out.k, out.q, op_.key_dim);
    const float a = at.step.of(a_, at.worker).row(r)[head];
    out.decay = static_cast<float>(
        exp_of_negative(-static_cast<double>(decay_[head] * softplus(a + dt_bias_[head]))));
    out.beta = sigmoid(at.step.of(b_, at.worker).row(r)[head]);
  }

  float* state(const Head& at, int tile) const {
    const CpuState::Delta& delta = at.step.state->delta(op_.state);
    return delta.state + at.segment.sequence.slot * delta.slot_stride + at.head * delta.head_stride +
           static_cast<std::int64_t>(tile) * kDeltaTile * op_.key_dim;
  }
  int width(const Head& at, int tile) const {
    return std::min(kDeltaTile, at.step.state->delta(op_.state).padded - tile * kDeltaTile);
  }

  /// The updates that a tile still lacks: the kept drafts of the last step.
  int replay(const Head& at, int tile, DeltaUpdate* updates) const {
    const SequenceView& sequence = at.segment.sequence;
    // An earlier timeline's state in the slot must not leak.
    if (at.segment.position == sequence.replay) {
      std::memset(state(at, tile), 0,
                  static_cast<std::size_t>(op_.key_dim * width(at, tile)) * sizeof(float));
    }
    for (int r = 0; r < sequence.replay; ++r) {
      const Entry kept = entry(at, sequence.tape, r);
      updates[r] = {kept.g[at.head], kept.k + key_at(at.head), kept.d + d_at(at, tile)};
    }
    return sequence.replay;
  }

  std::int64_t d_at(const Head& at, int tile) const {
    return static_cast<std::int64_t>(at.head) * at.step.state->delta(op_.state).padded + tile * kDeltaTile;
  }

  /// Rows `begin` and later of the segment on one tile, one pass per row, which applies the updates of the
  /// rows before. Confirmed rows change the state, the others a copy of it. The update of the last
  /// unconfirmed row is not needed.
  void run_tile(const Head& at, int tile, int begin, std::span<const Prepared> rows) const {
    const Segment& segment = at.segment;
    const Scratch scratch = tile_scratch(at.worker);
    const int columns = width(at, tile);
    const std::int64_t value_at = static_cast<std::int64_t>(at.head) * op_.value_dim + tile * kDeltaTile;
    const int real = std::min(columns, op_.value_dim - tile * kDeltaTile);  // the rest is padding with zeros
    const std::int64_t values = 2 * static_cast<std::int64_t>(op_.key_heads) * op_.key_dim + value_at;
    std::memset(scratch.v, 0, kDeltaTile * sizeof(float));
    DeltaUpdate updates[kMaxTapeRows];
    DeltaPass pass{.from = state(at, tile), .key_dim = op_.key_dim, .width = columns, .updates = updates};
    if (begin == 0) pass.count = replay(at, tile, updates);
    float* keep = state(at, tile);  // receives the updates
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Prepared& row = rows[i];
      const int r = begin + static_cast<int>(i);
      const bool confirmed = r < segment.confirmed;
      std::memcpy(scratch.v, at.step.of(in_, at.worker).row(at.first_row + r) + values,
                  static_cast<std::size_t>(real) * sizeof(float));
      float* left = confirmed
                        ? scratch.d[i % 2]
                        : entry(at, 1 - segment.sequence.tape, r - segment.confirmed).d + d_at(at, tile);
      const DeltaToken token{row.decay, row.beta, row.key_query, row.k, row.q, scratch.v, left, scratch.y};
      pass.token = &token;
      const bool needed = keep != scratch.ahead || r + 1 < segment.rows;
      pass.to = pass.count > 0 && needed ? keep : nullptr;
      at.step.kernels->delta_pass(pass);
      std::memcpy(out_.row(at.first_row + r) + value_at, scratch.y,
                  static_cast<std::size_t>(real) * sizeof(float));
      if (pass.to != nullptr) pass.from = pass.to;
      updates[0] = {row.decay, row.k, left};
      pass.count = 1;
      if (!confirmed) keep = scratch.ahead;
    }
    if (keep == scratch.ahead) return;
    pass.token = nullptr;
    pass.to = keep;
    at.step.kernels->delta_pass(pass);
  }

  /// Writes the part of an unconfirmed row's tape entry that does not depend on the tile.
  void keep(const Head& at, int row, const Prepared& packed_cache) const {
    const Entry to = entry(at, 1 - at.segment.sequence.tape, row - at.segment.confirmed);
    to.g[at.head] = packed_cache.decay;
    if (at.head % group() != 0) return;
    std::memcpy(to.k + key_at(at.head), packed_cache.k,
                static_cast<std::size_t>(op_.key_dim) * sizeof(float));
  }

  DeltaRule op_;
  Matrix in_, a_, b_, out_;
  float* worker_scratch_;
  std::int64_t worker_floats_;
  std::vector<float> decay_, dt_bias_;  // [value_heads] exp(a_log), dt_bias
};

}  // namespace

Needs needs(const DeltaRule& op, const BuildContext& /*context*/) {
  return {0, round_up(static_cast<std::int64_t>(2 * kPreparedRows) * op.key_dim, kLanes) + 4 * kDeltaTile +
                 static_cast<std::int64_t>(op.key_dim) * kDeltaTile};
}

std::unique_ptr<Operation> make(const DeltaRule& op, const BuildContext& context) {
  return std::make_unique<DeltaRuleOp>(op, context);
}

}  // namespace ft::cpu
