// Config: the configuration files of Llama and its relatives as plain typed values, all checked. Errors name
// the file, the key, the expected and the found value: kInvalid for a bad value, kUnsupported for a model
// that this version does not run. Absent or null keys take the defaults of Hugging Face's config of the model
// type (transformers 5).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/blocks/rope.h"
#include "models/blocks/sizes.h"
#include "models/family.h"

namespace ft::llama {

struct LayerConfig {
  bool rotates = true;  // false: positions turn nothing (SmolLM3)
  int window = 0;       // positions that a row sees, its own among them; 0: all
  bool sparse = false;  // experts instead of the MLP (Qwen3 MoE)
};

struct MoeConfig {
  int experts = 0, experts_per_token = 0, expert_size = 0;  // 0: dense
  bool norm_topk = false;
};

struct Config final : FamilyConfig {
  blocks::Sizes sizes;
  blocks::Rope rope;
  std::vector<LayerConfig> layers;  // (sizes.layers)
  MoeConfig moe;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;  // Qwen3
  // Granite's; 1: none. The scale of scores is head_dim^-1/2 unless given (0).
  double embedding_multiplier = 1, residual_multiplier = 1, logits_scaling = 1, attention_scale = 0;
  std::int64_t context = 0;  // positions that run exactly as trained
  blocks::Ends ends;
  bool has_tower = false;  // a vision tower, which this version does not run

  /// `files` must be of a model_type of this family.
  static Result<Config> read(const format::ConfigFiles& files, const std::string& model_type);
  ModelFacts facts() const override;
};

/// In config.json. Static.
extern const std::span<const std::string_view> kModelTypes;

}  // namespace ft::llama
