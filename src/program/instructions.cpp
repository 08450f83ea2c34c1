#include "program/instructions.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ft {
namespace {

void element_wise(Describer& d, Row a, Row b, Row out) {
  d.reads(a, out.width, Granularity::columns());
  d.reads(b, out.width, Granularity::columns());
  d.writes(out, out.width, Granularity::columns());
}

bool ascend(const std::vector<std::int32_t>& ids) {
  return std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end();
}

void describe_extra(Describer& d, const Logits& op) {
  const std::vector<std::int32_t>& always = op.extra.always;
  const std::int64_t left = op.ids.empty() ? 0 : op.lm_head.rows - op.ids.back() - 1;
  d.require(op.extra.count >= 0 && op.extra.count <= std::min<std::int64_t>(left, kMaxExtraIds),
            "has more extra columns than ids above the listed ones, or than can be counted");
  d.require(std::ssize(always) <= op.extra.count, "has fewer extra columns than ids that always have one");
  for (std::size_t j = 0; j < always.size(); ++j) {
    const std::int32_t before = j > 0 ? always[j - 1] : op.ids.empty() ? -1 : op.ids.back();
    d.require(always[j] > before && always[j] < op.lm_head.rows,
              "an id that always has an extra column is listed already, out of order or outside the head");
  }
}

void describe_experts(Describer& d, const std::vector<Weight>& weights, std::int64_t rows, std::int64_t cols,
                      int chosen) {
  d.require(std::ranges::all_of(weights, [&](const Weight& w) { return stored_alike(w, weights.front()); }),
            "has experts that are stored in different formats");
  d.experts(weights, rows, cols, chosen);
}

}  // namespace

void Attention::keep_state(StateLayout& layout) {
  if (shared) return;
  const auto alike = [this](const StateLayout::Cache& other) {
    return other.transient && other.kv_heads == kv_heads && other.head_dim == head_dim;
  };
  const auto found = transient ? std::ranges::find_if(layout.caches, alike) : layout.caches.end();
  cache = static_cast<int>(found - layout.caches.begin());
  if (found == layout.caches.end()) layout.caches.push_back({kv_heads, head_dim, sliding_window, transient});
}

void CausalConv1d::keep_state(StateLayout& layout) {
  state = static_cast<int>(layout.conv_states.size());
  layout.conv_states.push_back({in.width, kernel_width});
}

void DeltaRule::keep_state(StateLayout& layout) {
  state = static_cast<int>(layout.deltas.size());
  layout.deltas.push_back({key_heads, value_heads, key_dim, value_dim});
}

void Embed::describe(Describer& d) const {
  d.table(table, out.width);
  d.writes(out, out.width, Granularity::whole());
}

void Input::describe(Describer& d) const {
  d.require(number >= 0 && number < static_cast<int>(kMaxInputs),
            "is one input more than a program may have");
  d.writes(out, width, Granularity::whole());
}

void Norm::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  if (!weight.empty()) d.vector(weight, in.width);
  d.writes(out, in.width, Granularity::replicated());
}

void LayerNorm::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  d.vector(weight, in.width);
  d.vector(bias, in.width);
  d.writes(out, in.width, Granularity::replicated());
}

void Linear::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  d.require(!weights.empty() && weights.size() == outs.size(), "needs one output for each weight");
  for (std::size_t j = 0; j < weights.size() && j < outs.size(); ++j) {
    d.matrix(weights[j], outs[j].width, in.width, weights[j].rows);
    d.writes(outs[j], outs[j].width, Granularity::columns());
  }
}

void Attention::describe(Describer& d) const {
  d.require(heads > 0 && kv_heads > 0 && head_dim > 0 && heads % kv_heads == 0, "wrong head counts");
  d.reads(q, heads * head_dim * (gated ? 2 : 1), Granularity::whole());
  if (!shared) {
    d.reads(k, kv_heads * head_dim, Granularity::whole());
    d.reads(v, kv_heads * head_dim, Granularity::whole());
  }
  d.require(rotary >= 0 && rotary % 2 == 0 && rotary <= head_dim, "wrong rotary width");
  d.require(static_cast<int>(inverse_frequencies.size()) == rotary / 2, "wrong number of frequencies");
  d.require(frequency_axes.empty() || frequency_axes.size() == inverse_frequencies.size(),
            "needs one axis for each frequency");
  d.require(std::ranges::all_of(frequency_axes, [](std::uint8_t axis) { return axis < 3; }),
            "has a fourth axis");
  d.require(gains.empty() || gain_span > 0, "has gains of queries for no positions");
  d.require(!transient || (!causal && !shared), "takes turns in a cache that other steps read");
  d.require(sliding_window >= 0, "wrong window");
  if (!q_norm.empty()) d.vector(q_norm, head_dim);
  if (!k_norm.empty()) d.vector(k_norm, head_dim);
  if (!sinks.empty()) d.vector(sinks, heads);
  d.cache(cache, kv_heads, head_dim);
  d.shape(fmt::format("{}/{}x{}", heads, kv_heads, head_dim));
  if (gated) d.note("gated");
  d.note(fmt::format("{} heads, {} key-value heads of {}, {} rotated, cache {}", heads, kv_heads, head_dim,
                     rotary, cache));
  if (!frequency_axes.empty()) d.note("on axes");
  if (!gains.empty()) d.note(fmt::format("queries gain every {} positions", gain_span));
  if (shared) d.note("shared");
  if (transient) d.note("transient");
  if (v_norm) d.note("values normalised");
  if (!sinks.empty()) d.note("sinks");
  if (sliding_window > 0) d.note(fmt::format("window {}", sliding_window));
  if (!causal) d.note("not causal");
  d.writes(out, heads * head_dim, Granularity::whole());
}

void CausalConv1d::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::columns());
  d.vector(kernel, static_cast<std::int64_t>(in.width) * kernel_width);
  d.require(kernel.rows == in.width && kernel.cols == kernel_width, "has a kernel of another shape");
  d.require(kernel_width >= 1 && kernel_width <= 8, "takes a kernel width of 1 to 8");
  d.note(fmt::format("window {}", state));
  d.writes(out, in.width, Granularity::columns());
}

void LocalConv::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::columns());
  d.reads(coefficients, 2 * taps * groups, Granularity::whole());
  d.vector(base, std::int64_t{2} * taps * in.width);
  d.require(taps >= 1 && taps <= kMaxLocalTaps, "takes 1 to 16 taps");
  d.require(groups >= 1 && in.width % groups == 0, "has groups of channels that do not divide its row");
  d.require(side == 0 || side == 1, "has a third side");
  d.note(fmt::format("{} taps, {} groups, side {}", taps, groups, side));
  d.writes(out, in.width, Granularity::columns());
}

void DeltaRule::describe(Describer& d) const {
  d.require(key_heads > 0 && value_heads > 0 && value_heads % key_heads == 0, "wrong head counts");
  d.reads(in, 2 * key_heads * key_dim + value_heads * value_dim, Granularity::whole());
  d.reads(a, value_heads, Granularity::whole());
  d.reads(b, value_heads, Granularity::whole());
  d.vector(a_log, value_heads);
  d.vector(dt_bias, value_heads);
  d.state(static_cast<std::int64_t>(value_heads) * value_dim * key_dim);
  d.shape(fmt::format("{}/{}x{}", key_heads, value_heads, value_dim));
  d.note(fmt::format("{} heads of {}x{} ({} key heads), state {}", value_heads, key_dim, value_dim, key_heads,
                     state));
  d.writes(out, value_heads * value_dim, Granularity::by_head(value_heads));
}

void GatedNorm::describe(Describer& d) const {
  const bool divides = weight.cols > 0 && in.width % weight.cols == 0;
  d.require(divides, "has a row that is not a multiple of the norm's width");
  const Granularity heads =
      divides ? Granularity::by_head(static_cast<int>(in.width / weight.cols)) : Granularity::whole();
  d.reads(in, in.width, heads);
  d.reads(gate, in.width, heads);
  d.vector(weight, weight.cols);
  d.writes(out, in.width, heads);
}

void Swiglu::describe(Describer& d) const { element_wise(d, gate, up, out); }
void Geglu::describe(Describer& d) const { element_wise(d, gate, up, out); }
void Add::describe(Describer& d) const { element_wise(d, a, b, out); }

void TopKRouter::describe(Describer& d) const {
  d.reads(scores, scores.width, Granularity::whole());
  d.require(chosen > 0 && chosen <= scores.width, "chooses no expert, or more than there are");
  d.require(scores.width <= kMaxExperts, "has more experts than indices that a float32 holds exactly");
  const bool by_sigmoid = score == RouterScore::kSigmoid;
  d.require(by_sigmoid || selection_bias.empty(), "has a bias for the choice and scores by softmax");
  d.require(std::isfinite(factor), "has a factor that is not a number");
  if (!scale.empty()) d.vector(scale, scores.width);
  if (!selection_bias.empty()) d.vector(selection_bias, scores.width);
  d.note(fmt::format("{} of {}", chosen, scores.width));
  if (by_sigmoid) d.note("sigmoid");
  if (!renormalised) d.note("not renormalised");
  if (factor != 1) d.note(fmt::format("times {}", factor));
  d.writes(out, 2 * chosen, Granularity::replicated());
}

void MoeMlp::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  d.reads(routes, routes.width, Granularity::whole());
  d.require(!gate.empty() && gate.size() == up.size() && gate.size() == down.size(),
            "needs three matrices for each expert");
  d.require(chosen() > 0 && chosen() <= std::ssize(gate), "is routed to more experts than there are");
  describe_experts(d, gate, size(), in.width, chosen());
  describe_experts(d, up, size(), in.width, chosen());
  describe_experts(d, down, out.width, size(), chosen());
  d.require(gate_bias.empty() == up_bias.empty() && gate_bias.empty() == down_bias.empty(),
            "needs biases of gate, up and down, or none");
  if (biased()) {
    const auto count = std::ssize(gate);
    d.vector(gate_bias, count * size());
    d.vector(up_bias, count * size());
    d.vector(down_bias, count * out.width);
  }
  d.require(activation != Activation::kClampedSwiglu || limit > 0, "clamps to nothing");
  d.note(fmt::format("{} of {}", chosen(), gate.size()));
  if (activation == Activation::kGeluTanh) d.note("gelu");
  if (activation == Activation::kClampedSwiglu)
    d.note(fmt::format("clamped swiglu, alpha {}, limit {}", alpha, limit));
  d.writes(out, out.width, Granularity::columns());
}

void SigmoidGate::describe(Describer& d) const {
  d.reads(in, out.width, Granularity::columns());
  d.reads(gate, 1, Granularity::whole());
  d.writes(out, in.width, Granularity::columns());
}

void Gelu::describe(Describer& d) const {
  d.reads(in, out.width, Granularity::columns());
  d.note(exact ? "erf" : "tanh");
  d.writes(out, in.width, Granularity::columns());
}

void Bias::describe(Describer& d) const {
  d.reads(in, out.width, Granularity::columns());
  d.vector(bias, in.width);
  d.writes(out, in.width, Granularity::columns());
}

void Scale::describe(Describer& d) const {
  d.reads(in, out.width, Granularity::columns());
  d.note(fmt::format("times {}", factor));
  d.writes(out, in.width, Granularity::columns());
}

void Concat::describe(Describer& d) const {
  d.reads(a, a.width, Granularity::whole());
  d.reads(b, b.width, Granularity::whole());
  d.writes(out, a.width + b.width, Granularity::replicated());
}

void Slice::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  d.require(first >= 0 && width > 0 && first + width <= in.width, "takes columns that its row does not have");
  d.note(fmt::format("from column {}", first));
  d.writes(out, width, Granularity::replicated());
}

void Capture::describe(Describer& d) const {
  d.require(number < static_cast<int>(kMaxCaptures), "is one capture more than a program may have");
  d.note(name);
  d.reads(in, in.width, Granularity::replicated());  // after the step, by the caller
}

void Logits::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  d.matrix(lm_head, lm_head.rows, in.width, columns());
  d.require(ids.empty() || (ids.front() >= 0 && ids.back() < lm_head.rows),
            "a listed id is outside the LM head");
  d.require(ascend(ids), "ids must ascend");
  d.require(labels.empty() || (ids.empty() && extra.count == 0 && std::ssize(labels) == lm_head.rows),
            "needs one label for each row of the LM head, without a list of ids");
  d.require(ascend(labels) && (labels.empty() || labels.front() >= 0), "labels must ascend from 0 on");
  d.require(softcap >= 0, "has a negative soft cap");
  describe_extra(d, *this);
  if (!ids.empty()) d.note(fmt::format("{} ids", ids.size()));
  if (extra.count > 0) d.note(fmt::format("{} extra", extra.count));
  if (!labels.empty()) d.note(fmt::format("{} labels", labels.size()));
  if (softcap > 0) d.note(fmt::format("soft cap {}", softcap));
  d.writes_logits(columns());
}

void Sample::describe(Describer& d) const { d.reads_logits(); }

void ClusterLogits::describe(Describer& d) const {
  d.reads(in, in.width, Granularity::whole());
  d.reads(routes, routes.width, Granularity::whole());
  d.table(table, in.width);
  d.require(clusters > 0 && table.rows % clusters == 0, "has clusters of different sizes");
  d.require(chosen() > 0 && chosen() <= clusters, "chooses no cluster, or more than there are");
  d.require(std::ssize(tokens) == table.rows, "needs one token for each row of its table");
  d.require(softcap >= 0, "has a negative soft cap");
  d.note(fmt::format("{} of {} clusters", chosen(), clusters));
  if (softcap > 0) d.note(fmt::format("soft cap {}", softcap));
  d.writes_logits(table.rows);
}

void Walk::describe(Describer& d) const {
  d.reads_logits();
  const std::int64_t rank = predecessor.cols;
  if (factors.id >= 0) d.reads(factors, static_cast<int>(rank), Granularity::whole());
  d.table(predecessor, rank);
  d.table(successor, rank);
  d.require(candidates > 0 && candidates <= kMaxWalkCandidates, "takes 1 to 64 candidates");
  d.require(candidates <= successor.rows, "has more candidates than tokens");
  d.note(fmt::format("{} candidates", candidates));
}

std::string_view instruction_name(const Instruction& instruction) {
  return std::visit([](const auto& op) { return op.kName; }, instruction);
}

void describe(const Instruction& instruction, Describer& d) {
  std::visit([&d](const auto& op) { op.describe(d); }, instruction);
}

}  // namespace ft
