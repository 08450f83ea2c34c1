#include "models/blocks/moe.h"

#include <utility>

namespace ft::blocks {

namespace {

TopKRouter route(WeightSource& source, Row scores, const std::string& prefix, const MoePart& part) {
  TopKRouter made{scores, part.experts_per_token, part.renormalised, {}};
  made.score = part.score, made.factor = part.factor;
  if (part.selection_bias)
    made.selection_bias = source.vector(prefix + "gate.e_score_correction_bias", part.experts);
  return made;
}

}  // namespace

ExpertNames expert_names(const std::string& layer) {
  return {layer, layer + ".mlp.experts.", layer + ".mlp.switch_mlp.", layer + ".mlp.experts."};
}

Row moe(Program& p, WeightSource& source, Row x, const std::string& layer, const MoePart& part) {
  const std::string prefix = layer + ".mlp.", shared = prefix + std::string(part.shared) + ".";
  std::vector<Weight> weights = {source.matrix(prefix + "gate", part.experts, x.width)};
  Weight shared_down;
  if (part.shared_size > 0) {
    weights.push_back(source.matrix(shared + "gate_proj", part.shared_size, x.width));
    weights.push_back(source.matrix(shared + "up_proj", part.shared_size, x.width));
    shared_down = source.matrix(shared + "down_proj", x.width, part.shared_size);
    if (part.shared_gate) weights.push_back(source.matrix(prefix + "shared_expert_gate", 1, x.width));
  }
  // This order of instructions keeps barriers few.
  const std::vector<Row> in = p.linear(x, std::move(weights));
  const Row inner = part.shared_size > 0 ? p.swiglu(in[1], in[2]) : Row();
  MoeMlp routed;
  routed.in = x;
  routed.routes = p.append(route(source, in[0], prefix, part));
  ExpertWeights experts =
      read_experts(source, expert_names(layer), {part.experts, x.width, part.expert_size});
  routed.gate = std::move(experts.gate);
  routed.up = std::move(experts.up);
  routed.down = std::move(experts.down);
  if (part.shared_size == 0) return p.append(std::move(routed));
  const Row everyone = p.linear(inner, {shared_down})[0];
  const Row out = p.append(std::move(routed));
  return p.add(out, part.shared_gate ? p.append(SigmoidGate{everyone, in[3], {}}) : everyone);
}

}  // namespace ft::blocks
