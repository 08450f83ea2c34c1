#include <algorithm>
#include <numeric>

#include "backends/ref/executable.h"

namespace ft::ref {
namespace {

/// activation(gate * in) * (up * in) of one expert, [size].
Matrix inner(const float* in, const Decoded& gate, const Decoded& up, Activation activation) {
  Matrix values(static_cast<std::size_t>(gate.rows));
  for (std::int64_t i = 0; i < gate.rows; ++i) {
    const float g = dot(in, gate.values.data() + i * gate.cols, gate.cols);
    const float u = dot(in, up.values.data() + i * up.cols, up.cols);
    values[static_cast<std::size_t>(i)] = (activation == Activation::kSilu ? silu(g) : gelu(g)) * u;
  }
  return values;
}

}  // namespace

void execute(const Step& step, const MoeMlp& op, Weights weights) {
  std::vector<const Decoded*> matrices;  // of all experts: gate, up, down
  for (const auto* list : {&op.gate, &op.up, &op.down}) {
    for (const Weight& weight : *list) matrices.push_back(&weights.take(weight));
  }
  const std::size_t experts = op.gate.size();
  const auto chosen = static_cast<std::size_t>(op.chosen());
  for (int r = 0; r < step.rows; ++r) {
    const float* route = step.row(op.routes, r);
    float* out = step.row(op.out, r);
    std::fill_n(out, op.out.width, 0.0F);
    std::vector<std::size_t> order(chosen);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [route](std::size_t j) { return route[j]; });
    for (const std::size_t j : order) {
      const auto expert = static_cast<std::size_t>(route[j]);
      const Decoded& down = *matrices[2 * experts + expert];
      const Matrix values =
          inner(step.row(op.in, r), *matrices[expert], *matrices[experts + expert], op.activation);
      for (std::int64_t i = 0; i < down.rows; ++i)
        out[i] += route[chosen + j] * dot(values.data(), down.values.data() + i * down.cols, down.cols);
    }
  }
}

}  // namespace ft::ref
