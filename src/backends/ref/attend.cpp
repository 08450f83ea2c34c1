#include <algorithm>
#include <cmath>

#include "backends/ref/executable.h"

namespace ft::ref {
namespace {

/// RMS norm of one attention head, in place. weight: null for ones.
void norm_head(const Attention& op, const float* weight, float* head) {
  float sum = 0;
  for (int i = 0; i < op.head_dim; ++i) sum += head[i] * head[i];
  const float scale = 1.0F / std::sqrt(sum / static_cast<float>(op.head_dim) + op.eps);
  for (int i = 0; i < op.head_dim; ++i) head[i] = head[i] * scale * (weight == nullptr ? 1.0F : weight[i]);
}

/// A row of the step and its place in its timeline.
struct Place {
  int row;
  std::int64_t position;
};

/// The position that turns frequency `j` for the row.
std::int64_t turned_by(const Step& step, const Attention& op, Place place, std::size_t j) {
  const auto& coordinates = step.args->coordinates;
  if (coordinates.empty() || op.frequency_axes.empty()) return place.position;
  return coordinates[static_cast<std::size_t>(place.row)][op.frequency_axes[j]];
}

/// Norm, where there is one, and rotation of one attention head, in place.
void prepare_head(const Step& step, const Attention& op, const Decoded& norm, Place place, float* head) {
  if (!norm.values.empty()) norm_head(op, norm.values.data(), head);
  const int half = op.rotary / 2;
  for (int j = 0; j < half; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const float angle = static_cast<float>(turned_by(step, op, place, at)) * op.inverse_frequencies[at];
    const float c = std::cos(angle) * op.rotary_scale;
    const float s = std::sin(angle) * op.rotary_scale;
    const float a = head[j];
    const float b = head[j + half];
    head[j] = a * c - b * s;
    head[j + half] = b * c + a * s;
  }
}

void append(const Step& step, const Attention& op, const Decoded& k_norm, const Segment& segment,
            int first_row) {
  const int width = op.kv_heads * op.head_dim;
  for (int r = 0; r < segment.rows; ++r) {
    const std::int64_t position = segment.position + r;
    const std::int32_t block = segment.sequence.blocks[static_cast<std::size_t>(position / kBlockRows)];
    float* key = step.state->key(op.cache, block, static_cast<int>(position % kBlockRows));
    std::copy_n(step.row(op.k, first_row + r), width, key);
    for (int h = 0; h < op.kv_heads; ++h) {
      prepare_head(step, op, k_norm, {first_row + r, position}, key + h * op.head_dim);
    }
    float* value = step.state->value(op.cache, block, static_cast<int>(position % kBlockRows));
    std::copy_n(step.row(op.v, first_row + r), width, value);
    for (int h = 0; h < op.kv_heads && op.v_norm; ++h) norm_head(op, nullptr, value + h * op.head_dim);
  }
}

/// Positions [first, last) that a row sees.
struct Seen {
  std::int64_t first, last;
};

Seen seen(const Attention& op, const Segment& segment, std::int64_t position) {
  return {op.sliding_window > 0 ? std::max<std::int64_t>(0, position + 1 - op.sliding_window) : 0,
          op.causal ? position + 1 : segment.position + segment.rows};
}

/// An attention head of a row; `sink`: null for none.
void attend_head(const Step& step, const Attention& op, const Segment& segment, Seen seen, const float* query,
                 int kv_head, const float* sink, float* out) {
  const auto& blocks = segment.sequence.blocks;
  const std::ptrdiff_t head = static_cast<std::ptrdiff_t>(kv_head) * op.head_dim;
  std::vector<float> weights(static_cast<std::size_t>(seen.last - seen.first));
  for (std::int64_t p = seen.first; p < seen.last; ++p) {
    const std::int32_t block = blocks[static_cast<std::size_t>(p / kBlockRows)];
    const float* key = step.state->key(op.cache, block, static_cast<int>(p % kBlockRows)) + head;
    weights[static_cast<std::size_t>(p - seen.first)] = dot(query, key, op.head_dim) * op.scale;
  }
  float top = *std::max_element(weights.begin(), weights.end());
  if (sink != nullptr) top = std::max(top, *sink);
  float sum = 0;
  for (float& weight : weights) sum += weight = std::exp(weight - top);
  if (sink != nullptr) sum += std::exp(*sink - top);
  std::fill_n(out, op.head_dim, 0.0F);
  for (std::int64_t p = seen.first; p < seen.last; ++p) {
    const std::int32_t block = blocks[static_cast<std::size_t>(p / kBlockRows)];
    const float* value = step.state->value(op.cache, block, static_cast<int>(p % kBlockRows)) + head;
    const float weight = weights[static_cast<std::size_t>(p - seen.first)] / sum;
    for (int i = 0; i < op.head_dim; ++i) out[i] += weight * value[i];
  }
}

}  // namespace

void execute(const Step& step, const Attention& op, Weights weights) {
  const Decoded& q_norm = weights.take(op.q_norm);
  const Decoded& k_norm = weights.take(op.k_norm);
  const Decoded& sinks = weights.take(op.sinks);
  const int stride = op.gated ? 2 * op.head_dim : op.head_dim;
  const int group = op.heads / op.kv_heads;
  std::vector<float> query(static_cast<std::size_t>(op.head_dim));
  int first_row = 0;
  for (const Segment& segment : step.args->segments) {
    if (!op.shared) append(step, op, k_norm, segment, first_row);
    for (int r = 0; r < segment.rows; ++r) {
      for (int h = 0; h < op.heads; ++h) {
        const float* in = step.row(op.q, first_row + r) + h * stride;
        float* out = step.row(op.out, first_row + r) + h * op.head_dim;
        std::copy_n(in, op.head_dim, query.data());
        prepare_head(step, op, q_norm, {first_row + r, segment.position + r}, query.data());
        const float gain = op.gain_at(segment.position + r);
        for (float& value : query) value *= gain;
        const float* sink = sinks.values.empty() ? nullptr : sinks.values.data() + h;
        attend_head(step, op, segment, seen(op, segment, segment.position + r), query.data(), h / group, sink,
                    out);
        if (!op.gated) continue;
        for (int i = 0; i < op.head_dim; ++i) out[i] *= sigmoid(in[op.head_dim + i]);
      }
    }
    first_row += segment.rows;
  }
}

}  // namespace ft::ref
