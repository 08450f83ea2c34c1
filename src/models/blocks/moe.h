// A mixture of experts: a router, the routed experts and, in some families, a shared expert for every row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/expert_weights.h"
#include "program/program.h"

namespace ft::blocks {

struct MoePart {
  int experts = 0, experts_per_token = 0;
  std::int64_t expert_size = 0;
  std::int64_t shared_size = 0;               // of the expert that every row passes; 0: none
  bool renormalised = true;                   // the weights of the chosen experts add up to one
  std::string_view shared = "shared_expert";  // its module
  bool shared_gate = true;                    // it has a sigmoid gate
  RouterScore score = RouterScore::kSoftmax;
  bool selection_bias = false;  // mlp.gate.e_score_correction_bias
  float factor = 1;             // of the weights
};

/// The names of a layer's experts: "mlp.experts" fused or one by one, "mlp.switch_mlp" in stacks. `layer` has
/// no dot at its end.
ExpertNames expert_names(const std::string& layer);

/// Reads mlp.gate, the experts and, with a shared one, its module and mlp.shared_expert_gate.
Row moe(Program& program, WeightSource& source, Row x, const std::string& layer, const MoePart& part);

}  // namespace ft::blocks
