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

/// Items are (segment, value head, tile of columns): the columns of a state never meet, so a tile stays in
/// the first cache for all tokens of the step and is read from and written to memory once.
class DeltaRuleOp final : public Operation {
 public:
  DeltaRuleOp(const DeltaRule& op, const Parts& parts)
      : op_(op),
        in_(parts.matrix(op.in)),
        a_(parts.matrix(op.a)),
        b_(parts.matrix(op.b)),
        out_(parts.matrix(op.out)),
        worker_scratch_(parts.worker_scratch),
        worker_floats_(parts.worker_floats),
        decay_(static_cast<std::size_t>(op.value_heads)),
        dt_bias_(static_cast<std::size_t>(op.value_heads)) {
    read_rows(op.a_log, 0, 1, decay_.data());
    read_rows(op.dt_bias, 0, 1, dt_bias_.data());
    for (float& decay : decay_) decay = std::exp(decay);
  }

  void run(const Step& step, int worker, int workers) override {
    const int padded = step.state->delta(op_.state).padded;
    const int tiles = (padded + kDeltaTile - 1) / kDeltaTile;
    if (step.few && heads_divide(op_.value_heads, workers)) return run_heads(step, tiles, worker, workers);
    const auto items = static_cast<std::int64_t>(step.args->segments.size()) * op_.value_heads * tiles;
    const Share share = share_of(items, 1, worker, workers);
    std::int64_t first_row = 0;
    std::int64_t item = 0;
    for (const Segment& segment : step.args->segments) {
      for (int head = 0; head < op_.value_heads; ++head) {
        for (int tile = 0; tile < tiles; ++tile, ++item) {
          if (item >= share.first && item < share.last)
            run_tile(step, segment, first_row, head, tile, worker);
        }
      }
      first_row += segment.rows;
    }
  }

 private:
  /// A worker has the same heads of every segment, so that who reads a head of all rows need not wait.
  void run_heads(const Step& step, int tiles, int worker, int workers) const {
    const Share share = share_of(op_.value_heads, 1, worker, workers);
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      for (std::int64_t head = share.first; head < share.last; ++head) {
        for (int tile = 0; tile < tiles; ++tile)
          run_tile(step, segment, first_row, static_cast<int>(head), tile, worker);
      }
      first_row += segment.rows;
    }
  }

  /// Where a tape entry's parts begin.
  struct Entry {
    float* k;  // [key_heads, key_dim]
    float* d;  // [value_heads, padded]
    float* g;  // [value_heads]
  };
  Entry entry(const CpuState::Delta& delta, float* at) const {
    float* d = at + static_cast<std::int64_t>(op_.key_heads) * op_.key_dim;
    return {at, d, d + static_cast<std::int64_t>(op_.value_heads) * delta.padded};
  }

  void run_tile(const Step& step, const Segment& segment, std::int64_t first_row, int head, int tile,
                int worker) const {
    const CpuState::Delta& delta = step.state->delta(op_.state);
    const SequenceView& sequence = segment.sequence;
    const int column = tile * kDeltaTile;
    const int width = std::min(kDeltaTile, delta.padded - column);
    const std::int64_t size = static_cast<std::int64_t>(op_.key_dim) * width;
    const int key_head = head / (op_.value_heads / op_.key_heads);
    float* state = delta.state + sequence.slot * delta.slot_stride + head * delta.head_stride +
                   static_cast<std::int64_t>(column) * op_.key_dim;
    // Never read what an earlier timeline left in the slot.
    if (segment.position == sequence.replay)
      std::memset(state, 0, static_cast<std::size_t>(size) * sizeof(float));
    for (int r = 0; r < sequence.replay; ++r) {
      const Entry kept = entry(delta, step.state->tape(delta, sequence.slot, sequence.tape, r));
      step.kernels->delta_replay(state, op_.key_dim, width, kept.g[head],
                                 kept.k + static_cast<std::int64_t>(key_head) * op_.key_dim,
                                 kept.d + static_cast<std::int64_t>(head) * delta.padded + column);
    }
    float* scratch = worker_scratch_ + worker * worker_floats_;
    float* ahead = scratch + 2 * op_.key_dim + 3 * kDeltaTile;
    for (int r = 0; r < segment.rows; ++r) {
      if (r == segment.settled) {
        std::memcpy(ahead, state, static_cast<std::size_t>(size) * sizeof(float));
        state = ahead;
      }
      float* tape = r < segment.settled
                        ? nullptr
                        : step.state->tape(delta, sequence.slot, 1 - sequence.tape, r - segment.settled);
      run_token(step, first_row + r, head, column, width, state, tape, scratch);
    }
  }

  /// One token on one tile; `tape`: the entry to fill, or null.
  void run_token(const Step& step, std::int64_t row, int head, int column, int width, float* state,
                 float* tape, float* scratch) const {
    const CpuState::Delta& delta = step.state->delta(op_.state);
    const int group = op_.value_heads / op_.key_heads;
    const std::int64_t keys = static_cast<std::int64_t>(op_.key_heads) * op_.key_dim;
    const std::int64_t key_at = static_cast<std::int64_t>(head / group) * op_.key_dim;
    const float* in = in_.row(row);
    float* k = scratch;
    float* q = k + op_.key_dim;
    float* d = q + op_.key_dim;
    float* v = d + kDeltaTile;
    float* y = v + kDeltaTile;
    const auto at = static_cast<std::size_t>(head);
    const float g = static_cast<float>(
        exp_of_negative(-static_cast<double>(decay_[at] * softplus(a_.row(row)[head] + dt_bias_[at]))));
    step.kernels->l2_norm(in + key_at, op_.key_dim, 1.0F / std::sqrt(static_cast<float>(op_.key_dim)), q);
    step.kernels->l2_norm(in + keys + key_at, op_.key_dim, 1, k);
    const std::int64_t value_at = static_cast<std::int64_t>(head) * op_.value_dim + column;
    const int real = std::min(width, op_.value_dim - column);  // the rest is padding: zeros
    std::memset(v, 0, kDeltaTile * sizeof(float));
    std::memcpy(v, in + 2 * keys + value_at, static_cast<std::size_t>(real) * sizeof(float));
    step.kernels->delta_token(state, op_.key_dim, width, g, sigmoid(b_.row(row)[head]), k, q, v, d, y);
    std::memcpy(out_.row(row) + value_at, y, static_cast<std::size_t>(real) * sizeof(float));
    if (tape == nullptr) return;
    const Entry to = entry(delta, tape);
    std::memcpy(to.d + static_cast<std::int64_t>(head) * delta.padded + column, d,
                static_cast<std::size_t>(width) * sizeof(float));
    if (column != 0) return;
    to.g[head] = g;
    if (head % group == 0)
      std::memcpy(to.k + key_at, k, static_cast<std::size_t>(op_.key_dim) * sizeof(float));
  }

  DeltaRule op_;
  Matrix in_, a_, b_, out_;
  float* worker_scratch_;
  std::int64_t worker_floats_;
  std::vector<float> decay_, dt_bias_;  // [value_heads] exp(a_log), dt_bias
};

}  // namespace

std::int64_t delta_worker_floats(const DeltaRule& op) {
  return round_up(2 * op.key_dim + 3 * kDeltaTile, kLanes) +
         static_cast<std::int64_t>(op.key_dim) * kDeltaTile;
}

std::unique_ptr<Operation> make_delta_rule(const DeltaRule& op, const Parts& parts) {
  return std::make_unique<DeltaRuleOp>(op, parts);
}

}  // namespace ft::cpu
