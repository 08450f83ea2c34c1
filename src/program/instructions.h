// The instructions of a program. Each one describes itself once, in describe(): the rows that it reads and
// writes, its weights with their shapes, its state, and the conditions on its attributes. Checks, listings,
// costs, memory plans and weight packing all derive from that description. To add an instruction: its struct
// here, its describe() in instructions.cpp, its name in FT_INSTRUCTIONS, and one file in each backend.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "program/rows.h"
#include "program/weight.h"

namespace ft {

/// A matrix [rows of the step, width] of float32 values.
struct Row {
  int id = -1;
  int width = 0;
};

/// The smallest part of a row that can be computed without the rest of that row.
struct Granularity {
  enum class Kind {
    kWhole,       // the row
    kColumns,     // each column: it needs the same column of inputs with this granularity
    kHeads,       // each of `heads` equal parts
    kReplicated,  // the row, but cheaply: every worker may compute its own copy
  };
  Kind kind = Kind::kWhole;
  int heads = 0;

  static constexpr Granularity whole() { return {}; }
  static constexpr Granularity columns() { return {Kind::kColumns, 0}; }
  static constexpr Granularity by_head(int heads) { return {Kind::kHeads, heads}; }
  static constexpr Granularity replicated() { return {Kind::kReplicated, 0}; }
};

/// Receives the description of an instruction. A reader overrides the calls that it needs.
class Describer {
 public:
  virtual ~Describer() = default;
  virtual void reads(Row /*row*/, int /*width*/, Granularity /*granularity*/) {}
  virtual void writes(Row /*row*/, int /*width*/, Granularity /*granularity*/) {}
  virtual void reads_logits() {}
  virtual void writes_logits(std::int64_t /*columns*/) {}
  /// A weight vector, used element by element.
  virtual void vector(const Weight& /*weight*/, std::int64_t /*size*/) {}
  /// A lookup table: each input row reads one of its rows.
  virtual void table(const Weight& /*weight*/, std::int64_t /*cols*/) {}
  /// A matrix of `rows` rows. A step reads `rows_read` of them for each of its rows.
  virtual void matrix(const Weight& /*weight*/, std::int64_t /*rows*/, std::int64_t /*cols*/,
                      std::int64_t /*rows_read*/) {}
  /// One matrix for each expert; a row of the step reads `chosen` of them. For a reader that does not
  /// override it, each expert is a matrix that every step reads.
  virtual void experts(std::span<const Weight> weights, std::int64_t rows, std::int64_t cols,
                       int /*chosen*/) {
    for (const Weight& weight : weights) matrix(weight, rows, cols, rows);
  }
  /// Keys and values of layer `cache` that a row reads.
  virtual void cache(int /*cache*/, int /*kv_heads*/, int /*head_dim*/) {}
  /// Floats of recurrent state that a step reads and writes.
  virtual void state(std::int64_t /*floats*/) {}
  /// A condition on the attributes; `problem` is the error sentence if it does not hold.
  virtual void require(bool /*holds*/, std::string_view /*problem*/) {}
  /// An attribute as text.
  virtual void note(std::string_view /*text*/) {}
  /// The attributes that decide the cost of the instruction, as short text: "16/2x256".
  virtual void shape(std::string_view /*text*/) {}
};

/// The state that a timeline of a program keeps between steps, by layer.
struct StateLayout {
  struct Cache {
    int kv_heads, head_dim;
    int sliding_window = 0;  // positions that a row sees, its own among them; 0: all
    bool transient = false;  // of layers that take turns
  };
  struct ConvState {
    int width, kernel_width;
  };
  struct Delta {
    int key_heads, value_heads, key_dim, value_dim;
  };
  std::vector<Cache> caches;           // Attention::cache
  std::vector<ConvState> conv_states;  // CausalConv1d::state
  std::vector<Delta> deltas;           // DeltaRule::state
};

/// out = rows of `table` at the step's token ids, or rows that the step gives (StepArgs::embeddings).
struct Embed {
  static constexpr std::string_view kName = "embed";
  Weight table;
  Row out;
  int out_width() const { return static_cast<int>(table.cols); }
  void describe(Describer& d) const;
};
/// out = the hidden rows of the step (StepArgs::hidden), which a drafter takes from its target. A program
/// has at most kMaxInputs.
struct Input {
  static constexpr std::string_view kName = "input";
  int width = 0;
  Row out;
  int number = 0;  // among the inputs of its program: the store that it reads
  int out_width() const { return width; }
  void describe(Describer& d) const;
};
/// out = x * rsqrt(mean(x^2) + eps) * weight, over the whole row; without a weight, times one.
struct Norm {
  static constexpr std::string_view kName = "norm";
  Row in;
  Weight weight;  // [in.width], or empty
  float eps = 0;
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, over the whole row.
struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  Row in;
  Weight weight, bias;  // [in.width]
  float eps = 0;
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// outs[j] = weights[j] * in. Matrices that share an input are one instruction: it is prepared once.
struct Linear {
  static constexpr std::string_view kName = "linear";
  Row in;
  std::vector<Weight> weights;
  std::vector<Row> outs;
  void describe(Describer& d) const;
};
/// Softmax attention over the timeline's cache: q and k are normalised and rotated (the first `rotary` dims
/// of an attention head, in pairs (j, j + rotary / 2)), k and v are appended to layer `cache`. With `gated`,
/// q holds [heads][query head_dim, gate head_dim] and the result is multiplied by sigmoid(gate).
struct Attention {
  static constexpr std::string_view kName = "attend";
  Row q, k, v;            // k and v are unused where `shared`
  Weight q_norm, k_norm;  // [head_dim]; empty: no norm
  /// [heads], or empty: for each head a score that takes part in the softmax and has no value. It is not
  /// multiplied by `scale`, and every row sees it.
  Weight sinks;
  bool v_norm = false;  // values are normalised, without a weight
  int heads = 0, kv_heads = 0, head_dim = 0, rotary = 0;
  std::vector<float> inverse_frequencies;  // [rotary / 2]
  /// [rotary / 2] the axis (0 to 2) of StepArgs::coordinates that turns each frequency (M-RoPE); empty: the
  /// position turns all of them.
  std::vector<std::uint8_t> frequency_axes = {};
  float rotary_scale = 1;  // multiplies cos and sin (YaRN)
  /// The query at position p is multiplied by gains[p / gain_span] after its rotation; beyond the last gain,
  /// by the last one (Ministral 3's temperature). Empty: no factor.
  std::vector<float> gains = {};
  std::int64_t gain_span = 0;
  float eps = 0, scale = 0;
  bool gated = false;
  int sliding_window = 0;  // a row sees the last `sliding_window` positions, its own among them; 0: all
  bool causal = true;      // false: a row sees all rows of its segment, later ones too, and the same past
  bool shared = false;     // reads layer `cache`, which an earlier attend or another program appends to
  /// Keys and values are read in their own step only: layers of one shape take turns in one cache.
  bool transient = false;
  int cache = 0;  // set by the builder unless `shared`
  Row out;
  int out_width() const { return heads * head_dim; }
  float gain_at(std::int64_t position) const {
    if (gains.empty()) return 1;
    return gains[static_cast<std::size_t>(
        std::min(position / gain_span, static_cast<std::int64_t>(gains.size()) - 1))];
  }
  void keep_state(StateLayout& layout);
  void describe(Describer& d) const;
};
/// Causal depthwise convolution over the timeline's last `kernel_width` rows, then SiLU. The kernel is
/// [width, kernel_width], the current row last.
struct CausalConv1d {
  static constexpr std::string_view kName = "conv";
  Row in;
  Weight kernel;
  int kernel_width = 0;
  int state = 0;
  Row out;
  int out_width() const { return in.width; }
  void keep_state(StateLayout& layout);
  void describe(Describer& d) const;
};
inline constexpr int kMaxLocalTaps = 16;
/// Depthwise convolution over the last `taps` rows of the row's own segment. A row adds to its kernel:
///   out[j][c] = sum over t = 0 .. min(taps - 1, j) of (base[side][t][c] + coefficients[j][g]) * in[j - t][c]
/// with g = (side * taps + t) * groups + c / (in.width / groups). Row j counts from the first of its segment,
/// before which there is nothing, so it has no state. Source: z-lab/dflash, DFlash2.
struct LocalConv {
  static constexpr std::string_view kName = "local_conv";
  Row in, coefficients;  // coefficients: [2 * taps * groups]
  Weight base;           // [2 * taps, in.width]
  int taps = 0, groups = 0;
  int side = 0;  // 0 or 1: the half of `base` and of the coefficients
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// Gated delta rule, token by token in float32: in holds q, k [key_heads * key_dim] and
/// v [value_heads * value_dim]; a, b [value_heads]; out [value_heads * value_dim].
/// Source: Yang et al. 2024, Gated Delta Networks; transformers' torch_recurrent_gated_delta_rule.
struct DeltaRule {
  static constexpr std::string_view kName = "delta_rule";
  Row in, a, b;
  Weight a_log, dt_bias;
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int state = 0;
  Row out;
  int out_width() const { return value_heads * value_dim; }
  void keep_state(StateLayout& layout);
  void describe(Describer& d) const;
};
/// Per head of width weight.cols: out = norm(in) * weight * silu(gate).
struct GatedNorm {
  static constexpr std::string_view kName = "gated_norm";
  Row in, gate;
  Weight weight;
  float eps = 0;
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// out = silu(gate) * up.
struct Swiglu {
  static constexpr std::string_view kName = "swiglu";
  Row gate, up, out;
  int out_width() const { return gate.width; }
  void describe(Describer& d) const;
};
/// out = gelu_tanh(gate) * up.
struct Geglu {
  static constexpr std::string_view kName = "geglu";
  Row gate, up, out;
  int out_width() const { return gate.width; }
  void describe(Describer& d) const;
};
inline constexpr int kMaxExperts = 1 << 16;
inline constexpr float kMinRouterSum = 1e-20F;
enum class RouterScore : std::uint8_t { kSoftmax, kSigmoid };
/// The experts of a row: the `chosen` highest scores, in descending order; of equal scores the lowest index
/// comes first. Their weights are the softmax over all scores; `renormalised`: divided by their sum;
/// then times `scale` of the expert and times `factor`. With kSigmoid the sigmoid of a score is its weight,
/// sigmoid + `selection_bias` decides the choice, and kMinRouterSum is added to the sum.
/// out = [chosen indices, chosen weights].
/// Source: transformers' Qwen3_5MoeTopKRouter, Gemma4TextRouter and Glm4MoeTopkRouter.
struct TopKRouter {
  static constexpr std::string_view kName = "route";
  Row scores;  // [experts]
  int chosen = 0;
  bool renormalised = true;
  Weight scale;  // [experts], or empty
  RouterScore score = RouterScore::kSoftmax;
  Weight selection_bias = {};  // [experts], or empty
  float factor = 1;
  Row out = {};
  int out_width() const { return 2 * chosen; }
  void describe(Describer& d) const;
};
/// Makes the inner row of an expert from its gate g and up u: silu(g) * u, gelu_tanh(g) * u or, clamped,
/// g * sigmoid(alpha * g) * (u + 1), where g is at most `limit` and u is in [-limit, limit].
enum class Activation : std::uint8_t { kSilu, kGeluTanh, kClampedSwiglu };
/// out = the sum, over the experts e of the row's route in ascending order of index, of
/// weight * (down[e] * activation(gate[e] * in, up[e] * in)). With biases, the expert's bias is added
/// to each product. All matrices of one list are stored alike.
/// Source of the biases and the clamped activation: transformers' GptOssExperts.
struct MoeMlp {
  static constexpr std::string_view kName = "experts";
  Row in, routes;                // routes: of a TopKRouter
  std::vector<Weight> gate, up;  // [experts] of [size, in.width]
  std::vector<Weight> down;      // [experts] of [out.width, size]
  /// [experts * size], [experts * size] and [experts * out.width], expert by expert; all or none.
  Weight gate_bias, up_bias, down_bias;
  Activation activation = Activation::kSilu;
  float alpha = 1.702F, limit = 7;  // of kClampedSwiglu
  Row out;
  bool biased() const { return !gate_bias.empty(); }
  int chosen() const { return routes.width / 2; }
  int size() const { return gate.empty() ? 0 : static_cast<int>(gate.front().rows); }
  int out_width() const { return down.empty() ? 0 : static_cast<int>(down.front().rows); }
  void describe(Describer& d) const;
};
/// out = in * sigmoid(gate); a row has one gate.
struct SigmoidGate {
  static constexpr std::string_view kName = "sigmoid_gate";
  Row in, gate, out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
struct Add {
  static constexpr std::string_view kName = "add";
  Row a, b, out;
  int out_width() const { return a.width; }
  void describe(Describer& d) const;
};
/// out = gelu(in): x * (1 + tanh(u)) / 2 as in Geglu or, if `exact`, x * (1 + erf(x / sqrt(2))) / 2.
struct Gelu {
  static constexpr std::string_view kName = "gelu";
  Row in;
  bool exact = false;
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// out = in + bias, the same for each row.
struct Bias {
  static constexpr std::string_view kName = "bias";
  Row in;
  Weight bias;  // [in.width]
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// out = in * factor.
struct Scale {
  static constexpr std::string_view kName = "scale";
  Row in;
  float factor = 1;
  Row out;
  int out_width() const { return in.width; }
  void describe(Describer& d) const;
};
/// out = [a, b] side by side.
struct Concat {
  static constexpr std::string_view kName = "concat";
  Row a, b, out;
  int out_width() const { return a.width + b.width; }
  void describe(Describer& d) const;
};
/// out = columns [first, first + width) of in.
struct Slice {
  static constexpr std::string_view kName = "slice";
  Row in;
  int first = 0, width = 0;
  Row out;
  int out_width() const { return width; }
  void describe(Describer& d) const;
};
/// Writes `in` to the places that the step names, in store `number` of StepArgs::capture. A program has at
/// most kMaxCaptures.
struct Capture {
  static constexpr std::string_view kName = "capture";
  std::string name;
  Row in;
  int number = 0;  // among the captures of its program; set by the builder
  void describe(Describer& d) const;
};
/// Extra logit columns after a list of ids, for ids above the last listed one. They are assigned at run time
/// (Executable::add_draft_tokens).
inline constexpr int kMaxExtraIds = 1 << 14;
struct ExtraIds {
  int count = 0;
  std::vector<std::int32_t> always;  // ascending; they are never replaced
};
/// Logits of the step's logit rows: lm_head * in. With `ids`, only those rows of the LM head, and the extra
/// ones. With `labels`, row v of the LM head belongs to token labels[v] (EAGLE-3's d2t).
struct Logits {
  static constexpr std::string_view kName = "logits";
  Row in;
  Weight lm_head;
  std::vector<std::int32_t> ids;  // ascending; empty: all rows
  ExtraIds extra = {};
  std::vector<std::int32_t> labels = {};  // [lm_head.rows] ascending; empty: row v is token v. Excludes `ids`
  float softcap = 0;                      // > 0: softcap * tanh(logit / softcap)
  /// Columns of logits.
  std::int64_t columns() const {
    return ids.empty() ? lm_head.rows : static_cast<std::int64_t>(ids.size()) + extra.count;
  }
  /// Token ids of the columns that never change; empty: column v is token v.
  const std::vector<std::int32_t>& tokens() const { return labels.empty() ? ids : labels; }
  void describe(Describer& d) const;
};
/// Turns each logit row into a token (program/sample_row.h), if the step gives SampleRows.
struct Sample {
  static constexpr std::string_view kName = "sample";
  void describe(Describer& d) const;
};

/// Logits of the step's logit rows for the tokens of the clusters that the row chose, table * in; the logits
/// of all other tokens are -infinity. Source: transformers' Gemma4AssistantMaskedEmbedder.
struct ClusterLogits {
  static constexpr std::string_view kName = "cluster_logits";
  Row in, routes;  // routes: of a TopKRouter over the clusters
  Weight table;    // [tokens, in.width]
  int clusters = 0;
  std::vector<std::int32_t> tokens;  // [table.rows] tokens of cluster 0, then of 1 ...: each token once
  float softcap = 0;                 // as in Logits
  int chosen() const { return routes.width / 2; }
  int cluster_size() const { return clusters > 0 ? static_cast<int>(table.rows / clusters) : 0; }
  void describe(Describer& d) const;
};
inline constexpr int kMaxWalkCandidates = 64;
/// Replaces Sample: draws the drafts of a block one after the other. For the logit rows of each segment in
/// order, p being the draft before (for the first one the segment's first token): the `candidates` columns
/// with the highest logits, of those that SampleRow::mask allows and that are not `excluded` (of equal ones
/// the lowest), each with the score
///   logit[c] + sum over r of predecessor[p][r] * factors[r] * successor[c][r]
/// in float32, r ascending; then Sample's choice among these candidates. backends/walk.h has it for the host.
/// Sources: z-lab/dflash, DFlash2's candidate selector; vllm-project/speculators, DSpark's Markov head.
struct Walk {
  static constexpr std::string_view kName = "walk";
  Row factors;         // [rank]; id < 0: ones
  Weight predecessor;  // [tokens, rank]
  Weight successor;    // [columns of the logits, rank]
  int candidates = 0;
  std::int32_t excluded = -1;
  void describe(Describer& d) const;
};

/// Every instruction. X(Op) is expanded once for each.
#define FT_INSTRUCTIONS(X) \
  X(Embed)                 \
  X(Input)                 \
  X(Norm)                  \
  X(LayerNorm)             \
  X(Linear)                \
  X(Attention)             \
  X(CausalConv1d)          \
  X(LocalConv)             \
  X(DeltaRule)             \
  X(GatedNorm)             \
  X(Swiglu)                \
  X(Geglu)                 \
  X(TopKRouter)            \
  X(MoeMlp)                \
  X(SigmoidGate)           \
  X(Add)                   \
  X(Gelu)                  \
  X(Bias)                  \
  X(Scale)                 \
  X(Concat)                \
  X(Slice)                 \
  X(Capture)               \
  X(Logits)                \
  X(ClusterLogits)         \
  X(Sample)                \
  X(Walk)

template <class First, class... Ops>
struct VariantWithout {
  using type = std::variant<Ops...>;
};
#define FT_AS_ALTERNATIVE(Op) , Op
using Instruction = VariantWithout<void FT_INSTRUCTIONS(FT_AS_ALTERNATIVE)>::type;
#undef FT_AS_ALTERNATIVE

/// "linear", "attend" ...: the word of the documentation, profiles and tests.
std::string_view instruction_name(const Instruction& instruction);
void describe(const Instruction& instruction, Describer& d);

}  // namespace ft
