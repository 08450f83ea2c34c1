// A model as a flat list of instructions over row matrices. A row is one token of one sequence; `Row` names a
// matrix [rows of the step, width] of float32 values. The list is emitted once at load by models/<family>/
// and compiled by a backend; no instruction needs the host between its inputs and outputs, so a list can
// become one CUDA graph or one lazy expression. Row rule: what an instruction computes for row i depends on
// row i's own inputs and its timeline's past only, in one order of additions, whatever other rows the step
// has. Shapes are checked when a backend compiles. Owner: the model; immutable afterwards, so any thread may
// read it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "program/weight.h"

namespace ft {

struct Row {
  int id = -1;
  int width = 0;
};

/// out = rows of `table` at the step's token ids.
struct Embed {
  Weight table;
  Row out;
};
/// out = the step's hidden rows (StepArgs::hidden), which a drafter's network takes from its target.
struct Input {
  Row out;
};
/// out = x * rsqrt(mean(x^2) + eps) * weight, over the whole row.
struct Norm {
  Row in;
  Weight weight;
  float eps = 0;
  Row out;
};
/// outs[j] = weights[j] * in. Matrices that share an input stand together: it is prepared once.
struct Linear {
  Row in;
  std::vector<Weight> weights;
  std::vector<Row> outs;
};
/// Softmax attention over the timeline's cache: q and k normalised and rotated (first `rotary` dims of a
/// head, pairs (j, j + rotary / 2)), k and v appended to cache layer `cache`, heads * head_dim out. If
/// `gated`, q holds [heads][query head_dim, gate head_dim] and the result is multiplied by sigmoid(gate).
struct Attend {
  Row q, k, v;
  Weight q_norm, k_norm;  // [head_dim]; empty: no norm
  int heads = 0, kv_heads = 0, head_dim = 0, rotary = 0;
  std::vector<float> inverse_frequencies;  // [rotary / 2]
  float rotary_scale = 1;                  // multiplies cos and sin (YaRN)
  float eps = 0, scale = 0;
  bool gated = false;
  int cache = 0;
  Row out;
};
/// Causal depthwise convolution over the timeline's last `taps` rows, then SiLU. kernel [width, taps],
/// current last.
struct Conv {
  Row in;
  Weight kernel;
  int taps = 0;
  int state = 0;
  Row out;
};
/// Gated delta rule, token by token in float32 (qwen3_5 section 4.5): in holds q, k [key_heads * key_dim] and
/// v [value_heads * value_dim]; a, b [value_heads]; out [value_heads * value_dim].
struct DeltaRule {
  Row in, a, b;
  Weight a_log, dt_bias;
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int state = 0;
  Row out;
};
/// Per head of width weight.cols: out = norm(in) * weight * silu(gate).
struct GatedNorm {
  Row in, gate;
  Weight weight;
  float eps = 0;
  Row out;
};
/// out = silu(gate) * up.
struct Swiglu {
  Row gate, up, out;
};
/// out = gelu_tanh(gate) * up.
struct Geglu {
  Row gate, up, out;
};
struct Add {
  Row a, b, out;
};
/// out = [a, b] side by side.
struct Concat {
  Row a, b, out;
};
/// Makes `in` readable after the step under `name` (StepResult::tap).
struct Tap {
  std::string name;
  Row in;
};
/// Columns of logits beside a list of ids, for ids behind the last one of it: those that are named while the
/// program runs (Executable::add_ids).
inline constexpr int kMaxSpare = 1 << 14;
struct Spare {
  int count = 0;
  std::vector<std::int32_t> always;  // ascending; they never give way
};
/// Logits of the step's wanted rows: head * in, or only the head's rows `ids` (ascending) if that list is not
/// empty, and the spare ones.
struct Logits {
  Row in;
  Weight head;
  std::vector<std::int32_t> ids;
  Spare spare;
};
/// Turns each wanted row's logits into a token (program/select.h), if the step gives SelectRows.
struct Select {};

using Instruction = std::variant<Embed, Input, Norm, Linear, Attend, Conv, DeltaRule, GatedNorm, Swiglu,
                                 Geglu, Add, Concat, Tap, Logits, Select>;

/// What a timeline of this program keeps between steps, layer by layer.
struct StateLayout {
  struct Cache {
    int kv_heads, head_dim;
  };
  struct Window {
    int width, taps;
  };
  struct Delta {
    int key_heads, value_heads, key_dim, value_dim;
  };
  std::vector<Cache> caches;    // Attend::cache
  std::vector<Window> windows;  // Conv::state
  std::vector<Delta> deltas;    // DeltaRule::state
};

/// The list and its builder: each call appends one instruction and returns its output.
class Program {
 public:
  Row embed(const Weight& table);
  Row input(int width);
  Row norm(Row in, const Weight& weight, float eps);
  std::vector<Row> linear(Row in, std::vector<Weight> weights);
  Row attend(Attend instruction);  // sets cache and out
  Row conv(Row in, const Weight& kernel);
  Row delta_rule(DeltaRule instruction);  // sets state and out
  Row gated_norm(Row in, Row gate, const Weight& weight, float eps);
  Row swiglu(Row gate, Row up);
  Row geglu(Row gate, Row up);
  Row add(Row a, Row b);
  Row concat(Row a, Row b);
  void tap(std::string name, Row in);
  void logits(Row in, const Weight& head, std::vector<std::int32_t> ids = {}, Spare spare = {});
  void select();
  /// A backend may requantise the matrices of linear and logits that are stored in more bits to affine codes
  /// of `bits` (4 or 8) in groups of 64 or 32: for drafts, which nobody must reproduce. 0: as stored.
  void set_most_bits(int bits) { most_bits_ = bits; }
  int most_bits() const { return most_bits_; }

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const StateLayout& layout() const { return layout_; }
  int row_count() const { return row_count_; }
  /// Bytes of weights that one decoding step reads (the embedding counts as one row).
  std::int64_t bytes_per_step() const;

 private:
  Row make(int width) { return Row{row_count_++, width}; }

  std::vector<Instruction> instructions_;
  StateLayout layout_;
  int row_count_ = 0;
  int most_bits_ = 0;
};

/// "linear", "attend" ... : the word of the documentation, profiles and tests.
std::string_view instruction_name(const Instruction& instruction);
/// One line an instruction, for `foretoken inspect --program`.
std::string to_text(const Program& program);

}  // namespace ft
