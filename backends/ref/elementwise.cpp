#include <algorithm>
#include <cmath>

#include "backends/ref/executable.h"

namespace ft::ref {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }
float silu(float x) { return x * sigmoid(x); }

void swiglu(const Step& step, const Swiglu& op) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i) {
      step.row(op.out, r)[i] = silu(step.row(op.gate, r)[i]) * step.row(op.up, r)[i];
    }
  }
}

void geglu(const Step& step, const Geglu& op) {
  constexpr float kRootTwoOverPi = 0.7978845608F;
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i) {
      const float x = step.row(op.gate, r)[i];
      const float gelu = 0.5F * x * (1.0F + std::tanh(kRootTwoOverPi * (x + 0.044715F * x * x * x)));
      step.row(op.out, r)[i] = gelu * step.row(op.up, r)[i];
    }
  }
}

void add(const Step& step, const Add& op) {
  for (int r = 0; r < step.rows; ++r) {
    for (int i = 0; i < op.out.width; ++i)
      step.row(op.out, r)[i] = step.row(op.a, r)[i] + step.row(op.b, r)[i];
  }
}

void concat(const Step& step, const Concat& op) {
  for (int r = 0; r < step.rows; ++r) {
    float* out = step.row(op.out, r);
    std::copy_n(step.row(op.a, r), op.a.width, out);
    std::copy_n(step.row(op.b, r), op.b.width, out + op.a.width);
  }
}

}  // namespace ft::ref
