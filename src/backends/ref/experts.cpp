#include <algorithm>
#include <numeric>

#include "backends/ref/executable.h"

namespace ft::ref {
namespace {

float activated(const MoeMlp& op, float gate, float up) {
  if (op.activation == Activation::kSilu) return silu(gate) * up;
  if (op.activation == Activation::kGeluTanh) return gelu(gate) * up;
  const float g = std::min(gate, op.limit);
  return g * sigmoid(op.alpha * g) * (std::clamp(up, -op.limit, op.limit) + 1.0F);
}

/// The matrices and biases of one kind, of all experts.
struct Projection {
  std::vector<const Decoded*> matrices;
  const Decoded* biases = nullptr;  // without values: none

  /// Output `i` of an expert.
  float of(std::size_t expert, const float* in, std::int64_t i) const {
    const Decoded& matrix = *matrices[expert];
    const float product = dot(in, matrix.values.data() + i * matrix.cols, matrix.cols);
    if (biases->values.empty()) return product;
    return product +
           biases->values[expert * static_cast<std::size_t>(matrix.rows) + static_cast<std::size_t>(i)];
  }
};

}  // namespace

void execute(const Step& step, const MoeMlp& op, Weights weights) {
  Projection gate, up, down;
  const auto take = [&weights](const std::vector<Weight>& from, Projection& to) {
    for (const Weight& weight : from) to.matrices.push_back(&weights.take(weight));
  };
  take(op.gate, gate), take(op.up, up), take(op.down, down);
  gate.biases = &weights.take(op.gate_bias);
  up.biases = &weights.take(op.up_bias);
  down.biases = &weights.take(op.down_bias);
  const auto chosen = static_cast<std::size_t>(op.chosen());
  Matrix inner(static_cast<std::size_t>(op.size()));
  for (int r = 0; r < step.rows; ++r) {
    const float* const in = step.row(op.in, r);
    const float* const route = step.row(op.routes, r);
    float* const out = step.row(op.out, r);
    std::fill_n(out, op.out.width, 0.0F);
    std::vector<std::size_t> order(chosen);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [route](std::size_t j) { return route[j]; });
    for (const std::size_t j : order) {
      const auto expert = static_cast<std::size_t>(route[j]);
      for (int i = 0; i < op.size(); ++i)
        inner[static_cast<std::size_t>(i)] = activated(op, gate.of(expert, in, i), up.of(expert, in, i));
      for (int i = 0; i < op.out.width; ++i) out[i] += route[chosen + j] * down.of(expert, inner.data(), i);
    }
  }
}

}  // namespace ft::ref
