// ModelFacts: the properties of a loaded model that higher floors use, whatever its family. A family derives
// it from its own config; the weights add the last fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/sampling_params.h"

namespace ft {

struct ModelFacts {
  std::string family;               // "qwen3_5", "gemma4"
  int vocabulary = 0;               // tokens; rows of the LM head
  int width = 0;                    // of a hidden state
  std::int64_t context = 0;         // max positions that the model was trained for
  std::vector<int> eos_ids;         // the preferred one first
  std::vector<int> suppressed_ids;  // never sampled
  SamplingParams sampling;          // what generation_config.json suggests

  // For reports. A family whose layers differ gives the sizes of its full-attention layers.
  int layers = 0, full_attention_layers = 0;
  int heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  // For layers with a mixture of experts; 0: dense. `intermediate` is then the size of the MLP next to them.
  int experts = 0, experts_per_token = 0, expert_size = 0;

  // From the weights.
  std::string quantisation;            // "4-bit group 32 93.1%, bf16 6.9%"
  std::int64_t parameters = 0;         // of target and MTP head, counted in weights, not in codes
  std::int64_t active_parameters = 0;  // that one token uses: of the experts only the chosen ones
  bool tied = false;                   // the LM head is the embedding
};

}  // namespace ft
