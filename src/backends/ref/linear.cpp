#include <array>

#include "backends/ref/executable.h"

namespace ft::ref {

float dot(const float* a, const float* b, std::int64_t size) {
  constexpr int kSums = 16;
  std::array<float, kSums> sums{};
  std::int64_t i = 0;
  for (; i + kSums <= size; i += kSums) {
    for (int j = 0; j < kSums; ++j) sums[static_cast<std::size_t>(j)] += a[i + j] * b[i + j];
  }
  for (; i < size; ++i) sums[static_cast<std::size_t>(i % kSums)] += a[i] * b[i];
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

void execute(const Step& step, const Linear& op, Weights weights) {
  for (std::size_t j = 0; j < op.weights.size(); ++j) {
    const Decoded& weight = weights.take(op.weights[j]);
    for (std::int64_t o = 0; o < weight.rows; ++o) {
      const float* w = weight.values.data() + o * weight.cols;
      for (int r = 0; r < step.rows; ++r)
        step.row(op.outs[j], r)[o] = dot(step.row(op.in, r), w, weight.cols);
    }
  }
}

}  // namespace ft::ref
