// The matrices of a layer's experts, whichever way they are stored: fused stacks (Hugging Face), a stack for
// each projection (MLX), or each expert by itself. Names are canonical. Errors name layer and expert. Cost: a
// look-up per stored tensor.
#pragma once

#include <string>
#include <vector>

#include "models/head_doctor.h"
#include "models/weight_source.h"

namespace ft {

/// Prefixes of names, each with its final dot.
struct ExpertNames {
  std::string layer;  // for messages: "layers.3"
  std::string fused;  // then gate_up_proj [experts, 2 * size, hidden], the gate first, and down_proj
  std::string
      stacks;        // then gate_proj, up_proj [experts, size, hidden] and down_proj [experts, hidden, size]
  std::string each;  // then {expert}.gate_proj, up_proj [size, hidden] and down_proj [hidden, size]
};

struct ExpertSizes {
  int experts = 0;
  std::int64_t hidden = 0, size = 0;
};

struct ExpertWeights {
  std::vector<Weight> gate, up, down;  // [experts]
};

enum class ExpertLayout { kFused, kStacks, kEach };
/// kFused if there are no experts at all.
ExpertLayout expert_layout(const WeightSource& source, const ExpertNames& names);
/// The tensors that a layout stores, by canonical name.
std::vector<HeadTensor> expert_tensors(ExpertLayout layout, const ExpertNames& names,
                                       const ExpertSizes& sizes);
/// Failures are in source.status().
ExpertWeights read_experts(WeightSource& source, const ExpertNames& names, const ExpertSizes& sizes);

}  // namespace ft
