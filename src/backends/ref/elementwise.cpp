#include <algorithm>
#include <cmath>

#include "backends/ref/executable.h"

namespace ft::ref {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }
float silu(float x) { return x * sigmoid(x); }

void execute(const Step& step, const Swiglu& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i) {
      step.row(op.out, r)[i] = silu(step.row(op.gate, r)[i]) * step.row(op.up, r)[i];
    }
  }
}

float gelu(float x) {
  constexpr float kRootTwoOverPi = 0.7978845608F;
  return 0.5F * x * (1.0F + std::tanh(kRootTwoOverPi * (x + 0.044715F * x * x * x)));
}

namespace {

float gelu_erf(float x) {
  constexpr float kRootHalf = 0.7071067812F;
  return 0.5F * x * (1.0F + std::erf(kRootHalf * x));
}

}  // namespace

void execute(const Step& step, const Geglu& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i) {
      step.row(op.out, r)[i] = gelu(step.row(op.gate, r)[i]) * step.row(op.up, r)[i];
    }
  }
}

void execute(const Step& step, const Gelu& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i) {
      const float x = step.row(op.in, r)[i];
      step.row(op.out, r)[i] = op.exact ? gelu_erf(x) : gelu(x);
    }
  }
}

void execute(const Step& step, const Bias& op, Weights weights) {
  const Decoded& bias = weights.take(op.bias);
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i)
      step.row(op.out, r)[i] = step.row(op.in, r)[i] + bias.values[static_cast<std::size_t>(i)];
  }
}

void execute(const Step& step, const Add& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i)
      step.row(op.out, r)[i] = step.row(op.a, r)[i] + step.row(op.b, r)[i];
  }
}

void execute(const Step& step, const SigmoidGate& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    const float gate = sigmoid(step.row(op.gate, r)[0]);
    for (int i = 0; i < op.out.width; ++i) step.row(op.out, r)[i] = step.row(op.in, r)[i] * gate;
  }
}

void execute(const Step& step, const Scale& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i) step.row(op.out, r)[i] = step.row(op.in, r)[i] * op.factor;
  }
}

void execute(const Step& step, const Slice& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r)
    std::copy_n(step.row(op.in, r) + op.first, op.width, step.row(op.out, r));
}

void execute(const Step& step, const Concat& op, Weights /*weights*/) {
  for (int r = 0; r < step.rows; ++r) {
    float* out = step.row(op.out, r);
    std::copy_n(step.row(op.a, r), op.a.width, out);
    std::copy_n(step.row(op.b, r), op.b.width, out + op.a.width);
  }
}

}  // namespace ft::ref
