// Config: the configuration files of GLM-4.5 and later as plain typed values, all checked. Errors name the
// file, the key, the expected and the found value: kInvalid for a bad value, kUnsupported for a model that
// this version does not run. Absent or null keys take the defaults of Hugging Face's Glm4MoeConfig
// (transformers 5).
#pragma once

#include <string>

#include "models/blocks/rope.h"
#include "models/blocks/sizes.h"
#include "models/family.h"

namespace ft::glm4_moe {

struct MoeConfig {
  int experts = 128, experts_per_token = 8, expert_size = 1408;
  int shared_size = 1408;  // n_shared_experts side by side
  bool norm_topk = true;
  double factor = 1;  // routed_scaling_factor
};

struct Config final : FamilyConfig {
  blocks::Sizes sizes;
  blocks::Rope rope;  // half of a head
  bool qkv_bias = false, qk_norm = false;
  int dense_layers = 1;  // first_k_dense_replace
  MoeConfig moe;
  int mtp_layers = 1;           // num_nextn_predict_layers; transformers writes num_mtp_layers
  bool mtp_by_tensors = false;  // no key names the head
  blocks::Ends ends;

  /// `files` must be of model_type glm4_moe.
  static Result<Config> read(const format::ConfigFiles& files);
  ModelFacts facts() const override;
};

}  // namespace ft::glm4_moe
