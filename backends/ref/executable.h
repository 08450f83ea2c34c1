// The reference executable: float32 loops in reading order, one function per instruction. It is the oracle
// for the other backends and is never optimised. All weights are decoded to float32 at compile time. Cost:
// O(weights) per row; memory 4 bytes per weight.
#pragma once

#include <unordered_map>
#include <vector>

#include "backends/ref/state.h"
#include "program/backend.h"

namespace ft::ref {

using Matrix = std::vector<float>;  // [rows, width], row-major

/// A float32 copy of a weight.
struct Decoded {
  std::int64_t rows = 0, cols = 0;
  Matrix values;
};

/// Everything an instruction may touch during one step.
struct Step {
  const StepArgs* args = nullptr;
  RefState* state = nullptr;
  std::vector<std::int32_t> tokens;  // [rows], resolved
  std::vector<Matrix>* values = nullptr;
  int rows = 0;

  float* row(Row handle, int index) const {
    return (*values)[static_cast<std::size_t>(handle.id)].data() +
           static_cast<std::size_t>(index) * static_cast<std::size_t>(handle.width);
  }
};

/// Sum of a[i] * b[i] in 16 interleaved partial sums, added in order: one order for every caller.
float dot(const float* a, const float* b, std::int64_t size);
float sigmoid(float x);
float silu(float x);

void norm(const Step& step, const Norm& op, const Decoded& weight);
void gated_norm(const Step& step, const GatedNorm& op, const Decoded& weight);
void linear(const Step& step, Row in, Row out, const Decoded& weight);
void attend(const Step& step, const Attend& op, const Decoded& q_norm, const Decoded& k_norm);
void conv(const Step& step, const Conv& op, const Decoded& kernel);
void delta_rule(const Step& step, const DeltaRule& op, const Decoded& a_log, const Decoded& dt_bias);
void swiglu(const Step& step, const Swiglu& op);
void geglu(const Step& step, const Geglu& op);
void add(const Step& step, const Add& op);
void concat(const Step& step, const Concat& op);

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options);

}  // namespace ft::ref
