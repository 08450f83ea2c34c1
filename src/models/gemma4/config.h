// Config: the configuration files of the Gemma 4 family as plain typed values, all checked. Errors name the
// file, the key, the expected and the found value: kInvalid for a bad value, kUnsupported for a model that
// this version does not run. Absent or null keys take the defaults of Hugging Face's Gemma4TextConfig
// (transformers 5), which are given at the fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/config_files.h"
#include "models/family.h"

namespace ft::gemma4 {

/// Rotary positions of one kind of layer.
struct RopeConfig {
  double theta = 1e4;
  double factor = 1;        // divides the frequencies
  double proportion = 1.0;  // of the pairs that are rotated; the exponent counts all of them
};

/// One decoder layer. Layers differ in their kind of attention, and E2B's in their MLP.
struct LayerConfig {
  bool full = false;      // full_attention; otherwise a sliding window
  int head_dim = 256;     // 512 in full layers
  int kv_heads = 4;       // others in full layers where keys are values
  int intermediate = 0;   // width of the MLP
  int cache_source = -1;  // the earlier layer whose keys and values it reads; -1: it has its own
  bool k_is_v = false;    // no v_proj: values are the keys before norm and rotation
};

struct Config final : FamilyConfig {
  int vocab_size = 262144;
  int hidden_size = 2304;
  int intermediate_size = 9216;
  int num_layers = 30;
  int num_heads = 8;
  int num_kv_heads = 4;
  int head_dim = 256;
  int window = 512;  // positions that a row of a sliding layer sees, its own among them
  double rms_norm_eps = 1e-6;
  double logit_softcap = 0;  // 0: none
  std::int64_t max_positions = 131072;
  int per_layer_width = 256;          // of the per-layer embeddings; 0: there are none
  int experts = 0;                    // of each layer, in addition to its dense MLP; 0: none
  int experts_per_token = 0;          // top_k_experts
  int expert_size = 0;                // moe_intermediate_size
  int per_layer_vocabulary = 262144;  // rows of their table
  bool rounds_scales = true;          // the model computes in bf16, so the embedding's scale is rounded to it
  std::vector<LayerConfig> layers;    // (num_layers)
  RopeConfig sliding_rope;            // theta 1e4, all pairs
  RopeConfig full_rope = {1e6, 1, 0.25};
  SamplingParams sampling;  // suggested

  std::vector<int> eos_ids;         // generation_config's first, then config's; without duplicates
  std::vector<int> suppressed_ids;  // suppress_tokens of generation_config

  /// `files` must be of a model_type of this family.
  static Result<Config> read(const format::ConfigFiles& files, const std::string& model_type);
  ModelFacts facts() const override;

  /// sqrt(width), rounded as the embedding's scale is.
  float embedding_scale(int width) const;
};

/// One frequency for each pair of a head. Pairs beyond the rotated proportion have frequency 0, and the
/// exponent counts all pairs: "proportional" in transformers' rope utilities.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int head_dim);
/// The value of a stored scalar; 1 if it is absent, which source.status() reports.
float stored_scalar(WeightSource& source, const std::string& name);

}  // namespace ft::gemma4
