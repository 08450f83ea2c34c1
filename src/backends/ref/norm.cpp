#include <cmath>

#include "backends/ref/executable.h"

namespace ft::ref {
namespace {

/// weight: null for ones.
void rms_norm(const float* in, const float* weight, int width, float eps, float* out) {
  float sum = 0;
  for (int i = 0; i < width; ++i) sum += in[i] * in[i];
  const float scale = 1.0F / std::sqrt(sum / static_cast<float>(width) + eps);
  for (int i = 0; i < width; ++i) out[i] = in[i] * scale * (weight == nullptr ? 1.0F : weight[i]);
}

}  // namespace

void execute(const Step& step, const Norm& op, Weights weights) {
  const Decoded& weight = weights.take(op.weight);
  const float* values = op.weight.empty() ? nullptr : weight.values.data();
  for (int r = 0; r < step.rows; ++r) {
    rms_norm(step.row(op.in, r), values, op.in.width, op.eps, step.row(op.out, r));
  }
}

void execute(const Step& step, const LayerNorm& op, Weights weights) {
  const Decoded& weight = weights.take(op.weight);
  const Decoded& bias = weights.take(op.bias);
  const auto width = static_cast<float>(op.in.width);
  for (int r = 0; r < step.rows; ++r) {
    const float* in = step.row(op.in, r);
    float mean = 0;
    for (int i = 0; i < op.in.width; ++i) mean += in[i];
    mean /= width;
    float squares = 0;
    for (int i = 0; i < op.in.width; ++i) squares += (in[i] - mean) * (in[i] - mean);
    const float scale = 1.0F / std::sqrt(squares / width + op.eps);
    for (int i = 0; i < op.in.width; ++i) {
      const auto at = static_cast<std::size_t>(i);
      step.row(op.out, r)[i] = (in[i] - mean) * scale * weight.values[at] + bias.values[at];
    }
  }
}

void execute(const Step& step, const GatedNorm& op, Weights weights) {
  const Decoded& weight = weights.take(op.weight);
  const int head = static_cast<int>(weight.cols);
  for (int r = 0; r < step.rows; ++r) {
    const float* in = step.row(op.in, r);
    const float* gate = step.row(op.gate, r);
    float* out = step.row(op.out, r);
    for (int h = 0; h < op.in.width; h += head) {
      rms_norm(in + h, weight.values.data(), head, op.eps, out + h);
      for (int i = h; i < h + head; ++i) out[i] *= silu(gate[i]);
    }
  }
}

}  // namespace ft::ref
