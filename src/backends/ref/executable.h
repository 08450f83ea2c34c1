// The reference executable: float32 loops in reading order, one execute() for each instruction. It is the
// oracle for the other backends and is never optimised. All weights are decoded to float32 when it is
// compiled. Cost: O(weights) a row; memory 4 bytes a weight.
#pragma once

#include <span>
#include <vector>

#include "backends/extra_ids.h"
#include "backends/ref/state.h"
#include "backends/walk.h"
#include "program/backend.h"
#include "sampling/sample.h"

namespace ft::ref {

using Matrix = std::vector<float>;  // [rows, width], row-major

/// A float32 copy of a weight.
struct Decoded {
  std::int64_t rows = 0, cols = 0;
  Matrix values;
};

/// The decoded weights of one instruction, in the order of its describe().
class Weights {
 public:
  explicit Weights(std::span<const Decoded> decoded) : decoded_(decoded) {}
  /// The next one; an absent optional weight is an empty one.
  const Decoded& take(const Weight& weight) {
    static const Decoded kAbsent;
    return weight.empty() ? kAbsent : decoded_[next_++];
  }

 private:
  std::span<const Decoded> decoded_;
  std::size_t next_ = 0;
};

/// Results of a step for its caller.
struct StepOutputs {
  ExtraIdTable extra;
  std::span<const std::int32_t> ids;  // token of each logit column; empty: column v is token v
  int vocabulary = 0;                 // columns of logits
  std::vector<float> logits;          // [max_logit_rows, vocabulary]
  std::vector<std::int32_t> sampled;  // [max_logit_rows]
  SampleScratch scratch;
  WalkScratch walk;
  WalkCandidates candidates;
  StepResult result;
};

/// Everything an instruction may touch during one step.
struct Step {
  const StepArgs* args = nullptr;
  RefState* state = nullptr;
  std::vector<std::int32_t> tokens;  // [rows], resolved
  std::vector<Matrix>* values = nullptr;
  StepOutputs* outputs = nullptr;
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
float gelu(float x);  // the approximation by tanh

#define FT_DECLARE(Op) void execute(const Step& step, const Op& op, Weights weights);
FT_INSTRUCTIONS(FT_DECLARE)
#undef FT_DECLARE

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options);

}  // namespace ft::ref
