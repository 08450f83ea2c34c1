#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/ref/executable.h"

namespace ft::ref {

namespace {

bool is_higher(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a > b;
}

/// The numbers by which experts are compared.
std::vector<float> merits(const TopKRouter& op, const float* scores, const Decoded& bias) {
  std::vector<float> own(scores, scores + op.scores.width);
  if (op.score == RouterScore::kSoftmax) return own;
  for (std::size_t e = 0; e < own.size(); ++e)
    own[e] = sigmoid(own[e]) + (op.selection_bias.empty() ? 0.0F : bias.values[e]);
  return own;
}

/// The weights of the experts of `order`, before they are divided by their sum.
std::vector<float> masses(const TopKRouter& op, const float* scores, const std::vector<std::size_t>& order) {
  std::vector<float> own;
  for (const std::size_t e : order) {
    own.push_back(op.score == RouterScore::kSigmoid ? sigmoid(scores[e])
                                                    : std::exp(scores[e] - scores[order[0]]));
  }
  return own;
}

}  // namespace

void execute(const Step& step, const TopKRouter& op, Weights weights) {
  const Decoded& scale = weights.take(op.scale);
  const Decoded& bias = weights.take(op.selection_bias);
  const auto chosen = static_cast<std::size_t>(op.chosen);
  const bool by_sigmoid = op.score == RouterScore::kSigmoid;
  std::vector<std::size_t> order(static_cast<std::size_t>(op.scores.width));
  for (int r = 0; r < step.rows; ++r) {
    const float* scores = step.row(op.scores, r);
    float* out = step.row(op.out, r);
    const std::vector<float> merit = merits(op, scores, bias);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, is_higher, [&](std::size_t e) { return merit[e]; });
    const std::vector<float> mass = masses(op, scores, order);
    float sum = by_sigmoid ? kMinRouterSum : 0;
    for (std::size_t j = 0; j < (op.renormalised ? chosen : order.size()); ++j) sum += mass[j];
    for (std::size_t j = 0; j < chosen; ++j) {
      const std::size_t expert = order[j];
      out[j] = static_cast<float>(expert);
      out[chosen + j] = by_sigmoid && !op.renormalised ? mass[j] : mass[j] / sum;
      if (!op.scale.empty()) out[chosen + j] *= scale.values[expert];
      out[chosen + j] *= op.factor;
    }
  }
}

}  // namespace ft::ref
