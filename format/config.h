// ModelConfig: config.json and generation_config.json of the Qwen3.5 family as plain typed values, all
// checked. The models floor builds programs from it; no other code reads these two files. Errors name the
// file, the key, what was expected and what was found: kInvalid for a bad value, kUnsupported for a
// model_type, rope type or quantiser that this version does not run, kNotFound without config.json. Absent or
// null keys take the defaults of Hugging Face's Qwen3_5TextConfig and Qwen3_5MoeTextConfig (transformers 5),
// which are given at the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/quantisation.h"

namespace ft::format {

enum class LayerType { kLinearAttention, kFullAttention };

struct RopeConfig {
  bool yarn = false;  // rope_type "yarn"; otherwise "default"
  double theta = 1e7;
  double partial_factor = 0.25;                   // fraction of head_dim that is rotated
  int rotary_dim = 64;                            // even; head_dim * partial_factor, rounded down
  std::vector<int> mrope_section = {11, 11, 10};  // (3), sums to rotary_dim / 2
  bool mrope_interleaved = true;
  // yarn only
  double factor = 1.0;
  std::int64_t original_positions = 0;  // original_max_position_embeddings
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double attention_factor = 1.0;  // factor on cos and sin; 0.1 * ln(factor) + 1 unless given
  bool truncate = true;           // the correction range is cut to whole dimensions
};

/// What generation_config.json suggests; a request may override each.
struct SamplingDefaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

/// How the MTP head was stored and what it takes (mtplx_* keys of config.json and mtplx_runtime.json).
struct MtpContract {
  int layers = 1;  // mtp_num_hidden_layers of the source model; a conversion may have dropped the tensors
  bool dedicated_embeddings = false;
  std::string norm_encoding;                      // "" if nothing says; "delta", "final", ...
  bool base_hidden_pre_norm = false;              // base_hidden_variant: "pre_norm" instead of "post_norm"
  bool hidden_pre_norm = false;                   // hidden_variant or mtp_hidden_variant, likewise
  std::string concat_order = "embedding_hidden";  // or "hidden_embedding"
  std::optional<int> depth_max;                   // mtplx_runtime.json
  std::optional<int> depth_default;
  /// True if 1 must be added to the stored norms: "delta", "delta_plus_one", "mlx_delta", "raw_hf_delta".
  bool norms_are_delta() const;
};

struct MoeConfig {
  int experts = 0;  // 0: dense
  int experts_per_token = 8;
  int expert_size = 512;  // moe_intermediate_size
  int shared_size = 512;  // shared_expert_intermediate_size
  bool norm_topk = true;
};

struct ModelConfig {
  std::string path;        // of config.json, for messages
  std::string model_type;  // qwen3_5, qwen3_5_text, qwen3_5_moe, qwen3_5_moe_text
  bool moe_family = false;

  int vocab_size = 248320;
  int hidden_size = 4096;         // 2048 for the MoE family
  int intermediate_size = 12288;  // dense MLP
  int num_layers = 32;            // 40 for the MoE family
  int num_heads = 16;
  int num_kv_heads = 4;  // 2 for the MoE family
  int head_dim = 256;
  double rms_norm_eps = 1e-6;
  std::int64_t max_positions = 32768;
  bool attention_bias = false;
  bool attn_output_gate = true;
  std::vector<LayerType> layer_types;  // (num_layers)

  int conv_kernel = 4;
  int linear_key_dim = 128;
  int linear_value_dim = 128;
  int linear_key_heads = 16;
  int linear_value_heads = 32;

  MoeConfig moe;
  RopeConfig rope;
  MtpContract mtp;
  SamplingDefaults sampling;
  QuantisationMap quantisation;

  std::vector<int> eos_ids;  // generation_config's first, then config's; without duplicates
  std::optional<int> bos_id;
  /// tie_word_embeddings of either level. WeightIndex decides by the tensors and uses this only to explain.
  std::optional<bool> tied;

  /// Reads config.json and, if present, generation_config.json and mtplx_runtime.json of a model directory.
  static Result<ModelConfig> read(const std::string& directory);
  /// The same from texts, for tests and fuzzing. An empty text means that the file is absent.
  static Result<ModelConfig> parse(const std::string& config, const std::string& generation_config,
                                   const std::string& runtime, const std::string& path);

  int qkv_rows() const {
    return 2 * linear_key_heads * linear_key_dim + linear_value_heads * linear_value_dim;
  }
};

}  // namespace ft::format
