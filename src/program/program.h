// A model as a flat list of instructions over row matrices. A row is one token of one sequence; `Row` names a
// matrix [rows of the step, width] of float32 values. models/<family> emits the list once, at load, and a
// backend compiles it. No instruction needs the host between its inputs and outputs, so a list can become one
// CUDA graph. Row rule: the result of an instruction for row i depends only on row i's inputs and its
// timeline's past, in one order of additions, whatever other rows the step has. The model owns its
// programs; they do not change after the load, so any thread may read them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "program/instructions.h"

namespace ft {

/// The list and its builder.
class Program {
 public:
  Program() = default;
  /// A program that reads the timelines of another one and changes nothing in them: check() takes no
  /// instruction that writes state.
  static Program over(StateLayout layout) {
    Program program;
    program.layout_ = std::move(layout), program.reads_only_ = true;
    return program;
  }

  /// A part of a program: `instructions` over the rows and the state `layout` of its steps, whose inputs,
  /// captures and places in the state are numbered already.
  static Program part_of(const Program& whole, StateLayout layout, std::vector<Instruction> instructions);

  /// Appends an instruction, sets its output row and its place in the state, and returns the output.
  template <class Op>
  Row append(Op op) {
    op.out = make(op.out_width());
    if constexpr (requires { op.keep_state(layout_); }) op.keep_state(layout_);
    const Row out = op.out;
    instructions_.emplace_back(std::move(op));
    return out;
  }

  Row embed(const Weight& table) { return append(Embed{table, {}}); }
  Row input(int width) { return append(Input{width, {}}); }
  Row norm(Row in, const Weight& weight, float eps) { return append(Norm{in, weight, eps, {}}); }
  Row layer_norm(Row in, const Weight& weight, const Weight& bias, float eps) {
    return append(LayerNorm{in, weight, bias, eps, {}});
  }
  Row gelu(Row in, bool exact) { return append(Gelu{in, exact, {}}); }
  Row bias(Row in, const Weight& bias) { return append(Bias{in, bias, {}}); }
  std::vector<Row> linear(Row in, std::vector<Weight> weights);
  Row attend(Attention instruction) { return append(std::move(instruction)); }
  Row conv(Row in, const Weight& kernel) {
    return append(CausalConv1d{in, kernel, static_cast<int>(kernel.cols), 0, {}});
  }
  Row delta_rule(DeltaRule instruction) { return append(std::move(instruction)); }
  Row gated_norm(Row in, Row gate, const Weight& weight, float eps) {
    return append(GatedNorm{in, gate, weight, eps, {}});
  }
  Row swiglu(Row gate, Row up) { return append(Swiglu{gate, up, {}}); }
  Row geglu(Row gate, Row up) { return append(Geglu{gate, up, {}}); }
  Row add(Row a, Row b) {
    FT_ASSERT(a.width == b.width);
    return append(Add{a, b, {}});
  }
  Row concat(Row a, Row b) { return append(Concat{a, b, {}}); }
  void capture(std::string name, Row in) {
    instructions_.emplace_back(Capture{std::move(name), in, capture_count_++});
  }
  void logits(Row in, const Weight& lm_head, std::vector<std::int32_t> ids = {}, ExtraIds extra = {}) {
    logits(Logits{in, lm_head, std::move(ids), std::move(extra)});
  }
  void logits(Logits instruction) { instructions_.emplace_back(std::move(instruction)); }
  void logits(ClusterLogits instruction) { instructions_.emplace_back(std::move(instruction)); }
  void sample() { instructions_.emplace_back(Sample{}); }
  void walk(Walk instruction) { instructions_.emplace_back(std::move(instruction)); }
  /// A backend may requantise the matrices of linear and logits that are stored in more bits to affine codes
  /// of `bits` (4 or 8) in groups of 64 or 32. For drafts only: they need not be reproduced. 0: as stored.
  void set_max_weight_bits(int bits) { max_weight_bits_ = bits; }
  int max_weight_bits() const { return max_weight_bits_; }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const StateLayout& layout() const { return layout_; }
  bool reads_only() const { return reads_only_; }
  int row_count() const { return row_count_; }
  int capture_count() const { return capture_count_; }
  /// Bytes of weights that a decoding step of one row reads (the embedding counts as one row, experts as
  /// those that the row is routed to).
  std::int64_t bytes_per_step() const;
  /// Bytes of weights that a backend holds: bytes_per_step(), with every expert.
  std::int64_t bytes_held() const;

 private:
  Row make(int width) { return Row{row_count_++, width}; }

  std::vector<Instruction> instructions_;
  StateLayout layout_;
  int row_count_ = 0, capture_count_ = 0;
  int max_weight_bits_ = 0;
  bool reads_only_ = false;
};

/// Calls visit(weight) for every matrix that the program multiplies by.
template <class Visit>
void each_matrix(const Program& program, const Visit& visit) {
  struct Matrices final : Describer {
    explicit Matrices(const Visit& given) : visit_(given) {}
    void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t) override { visit_(weight); }
    const Visit& visit_;
  } matrices(visit);
  for (const Instruction& instruction : program.instructions()) describe(instruction, matrices);
}

/// The capture of this name; null: the program has none.
const Capture* find_capture(const Program& program, std::string_view name);

/// One line an instruction, for `foretoken inspect --program`.
std::string to_text(const Program& program);

}  // namespace ft
