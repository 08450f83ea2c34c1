// A mixture of experts: a router, the routed experts and, in some families, one that every row passes.
#pragma once

#include <cstdint>
#include <string>

#include "models/expert_weights.h"
#include "program/program.h"

namespace ft::blocks {

struct MoePart {
  int experts = 0, experts_per_token = 0;
  std::int64_t expert_size = 0;
  std::int64_t shared_size = 0;  // of the expert that every row passes, with a sigmoid gate; 0: none
  bool renormalised = true;      // the weights of the chosen experts add up to one
};

/// Where a layer's experts are: "mlp.experts" fused or each by itself, "mlp.switch_mlp" in stacks. `layer` is
/// without a dot at its end.
ExpertNames expert_names(const std::string& layer);

/// Reads mlp.gate, the experts and, with a shared one, mlp.shared_expert and mlp.shared_expert_gate.
Row moe(Program& program, WeightSource& source, Row x, const std::string& layer, const MoePart& part);

}  // namespace ft::blocks
