#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/ref/executable.h"

namespace ft::ref {

void execute(const Step& step, const TopKRouter& op, Weights weights) {
  const Decoded& scale = weights.take(op.scale);
  const auto experts = static_cast<std::size_t>(op.scores.width);
  const auto chosen = static_cast<std::size_t>(op.chosen);
  std::vector<std::size_t> order(experts);
  for (int r = 0; r < step.rows; ++r) {
    const float* scores = step.row(op.scores, r);
    float* out = step.row(op.out, r);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [scores](std::size_t a, std::size_t b) {
      if (std::isnan(scores[a]) || std::isnan(scores[b]))
        return !std::isnan(scores[a]) && std::isnan(scores[b]);
      return scores[a] > scores[b];
    });
    const float highest = scores[order[0]];
    float sum = 0;
    for (std::size_t e = 0; e < (op.renormalised ? chosen : experts); ++e)
      sum += std::exp(scores[order[e]] - highest);
    for (std::size_t j = 0; j < chosen; ++j) {
      const std::size_t expert = order[j];
      out[j] = static_cast<float>(expert);
      out[chosen + j] = std::exp(scores[expert] - highest) / sum;
      if (!op.scale.empty()) out[chosen + j] *= scale.values[expert];
    }
  }
}

}  // namespace ft::ref
