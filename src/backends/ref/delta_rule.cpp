#include <algorithm>
#include <cmath>

#include "backends/ref/executable.h"

namespace ft::ref {
namespace {

void l2_norm(const float* in, int size, float scale, float* out) {
  float sum = 0;
  for (int i = 0; i < size; ++i) sum += in[i] * in[i];
  const float factor = scale / std::sqrt(sum + 1e-6F);
  for (int i = 0; i < size; ++i) out[i] = in[i] * factor;
}

float softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::abs(x))); }

/// S = g * S + k d^T for one value head, with the operations of `token`: a replayed state has the same bits.
void update(const DeltaRule& op, float g, const float* k, const float* d, float* state) {
  for (int i = 0; i < op.key_dim; ++i) {
    float* line = state + static_cast<std::ptrdiff_t>(i) * op.value_dim;
    for (int j = 0; j < op.value_dim; ++j) line[j] = std::fma(k[i], d[j], g * line[j]);
  }
}

/// S^T x: out [value_dim], with S scaled by `g` first.
void read(const DeltaRule& op, float g, const float* x, const float* state, float* out) {
  std::fill_n(out, op.value_dim, 0.0F);
  for (int i = 0; i < op.key_dim; ++i) {
    const float* line = state + static_cast<std::ptrdiff_t>(i) * op.value_dim;
    for (int j = 0; j < op.value_dim; ++j) out[j] = std::fma(g * line[j], x[i], out[j]);
  }
}

/// One token: decay, read with k, write, read with q. Fills `entry`, from which a replay repeats the write.
void token(const Step& step, const DeltaRule& op, const Decoded& a_log, const Decoded& dt_bias, int row,
           float* state, TapeEntry& entry) {
  const int keys = op.key_heads * op.key_dim;
  const float* in = step.row(op.in, row);
  const float query_scale = 1.0F / std::sqrt(static_cast<float>(op.key_dim));
  std::vector<float> q(static_cast<std::size_t>(keys));
  entry.k.resize(static_cast<std::size_t>(keys));
  entry.d.resize(static_cast<std::size_t>(op.value_heads * op.value_dim));
  entry.g.resize(static_cast<std::size_t>(op.value_heads));
  for (int h = 0; h < op.key_heads; ++h) {
    l2_norm(in + h * op.key_dim, op.key_dim, query_scale, q.data() + h * op.key_dim);
    l2_norm(in + keys + h * op.key_dim, op.key_dim, 1, entry.k.data() + h * op.key_dim);
  }
  for (int h = 0; h < op.value_heads; ++h) {
    const auto head = static_cast<std::size_t>(h);
    const int key_head = h / (op.value_heads / op.key_heads);
    const float* k = entry.k.data() + key_head * op.key_dim;
    const float* v = in + 2 * keys + h * op.value_dim;
    float* d = entry.d.data() + h * op.value_dim;
    float* s = state + static_cast<std::ptrdiff_t>(h) * op.key_dim * op.value_dim;
    const float beta = sigmoid(step.row(op.b, row)[h]);
    const float g =
        std::exp(-std::exp(a_log.values[head]) * softplus(step.row(op.a, row)[h] + dt_bias.values[head]));
    entry.g[head] = g;
    read(op, g, k, s, d);
    for (int j = 0; j < op.value_dim; ++j) d[j] = beta * (v[j] - d[j]);
    update(op, g, k, d, s);
    read(op, 1, q.data() + key_head * op.key_dim, s, step.row(op.out, row) + h * op.value_dim);
  }
}

void replay(const DeltaRule& op, const TapeEntry& entry, float* state) {
  for (int h = 0; h < op.value_heads; ++h) {
    const int key_head = h / (op.value_heads / op.key_heads);
    update(op, entry.g[static_cast<std::size_t>(h)], entry.k.data() + key_head * op.key_dim,
           entry.d.data() + h * op.value_dim,
           state + static_cast<std::ptrdiff_t>(h) * op.key_dim * op.value_dim);
  }
}

}  // namespace

void execute(const Step& step, const DeltaRule& op, Weights weights) {
  const Decoded& a_log = weights.take(op.a_log);
  const Decoded& dt_bias = weights.take(op.dt_bias);
  const auto size = static_cast<std::size_t>(op.value_heads * op.key_dim * op.value_dim);
  TapeEntry scratch;
  int first_row = 0;
  for (const Segment& segment : step.args->segments) {
    const SequenceView& sequence = segment.sequence;
    float* state = step.state->delta(op.state, sequence.slot);
    if (segment.position == sequence.replay) std::fill_n(state, size, 0.0F);
    for (int r = 0; r < sequence.replay; ++r) {
      replay(op, step.state->tape(op.state, sequence.slot, sequence.tape, r), state);
    }
    for (int r = 0; r < segment.confirmed; ++r) {
      token(step, op, a_log, dt_bias, first_row + r, state, scratch);
    }
    std::vector<float> ahead(state, state + size);
    for (int r = segment.confirmed; r < segment.rows; ++r) {
      token(step, op, a_log, dt_bias, first_row + r, ahead.data(),
            step.state->tape(op.state, sequence.slot, 1 - sequence.tape, r - segment.confirmed));
    }
    first_row += segment.rows;
  }
}

}  // namespace ft::ref
