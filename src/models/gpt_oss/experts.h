// The experts of a layer, whichever way they are stored: MXFP4 codes and scales in two tensors, plain
// matrices [experts, in, out] (Hugging Face, where rows of gate and up take turns), or a stack for each
// projection (MLX, and GGUF files by those names).
#pragma once

#include <string>
#include <vector>

#include "models/expert_weights.h"

namespace ft::gpt_oss {

struct Experts {
  std::vector<Weight> gate, up, down;    // [experts]
  Weight gate_bias, up_bias, down_bias;  // [experts * size] twice, [experts * hidden]
};

/// `layer` is without a dot at its end. Failures are in source.status().
Experts read_experts(WeightSource& source, const std::string& layer, const ExpertSizes& sizes);

}  // namespace ft::gpt_oss
