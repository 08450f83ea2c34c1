// Config: the configuration files of the Qwen3.5 family as plain typed values, all checked. Errors name the
// file, the key, the expected and the found value: kInvalid for a bad value, kUnsupported for a rope type
// or quantiser that this version does not run. Absent or null keys take the defaults of Hugging Face's
// Qwen3_5TextConfig, Qwen3_5MoeTextConfig and Qwen3NextConfig (transformers 5); the first one's are given
// at the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/config_files.h"
#include "images/picture.h"
#include "models/blocks/rope.h"
#include "models/family.h"

namespace ft::qwen3_5 {

enum class LayerType { kLinearAttention, kFullAttention };

struct RopeConfig : blocks::Rope {                // default or yarn, theta 1e7, a quarter of a head
  std::vector<int> mrope_section = {11, 11, 10};  // (3), sums to rotary_dim / 2
  bool mrope_interleaved = true;
};

/// The storage and the inputs of the MTP head (mtplx_* keys of config.json and mtplx_runtime.json).
struct MtpContract {
  bool by_tensors = false;  // Qwen3-Next: no key names the head
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

/// The tower: vision_config, and the sizes of pictures of preprocessor_config.json.
struct VisionConfig {
  int depth = 27, hidden_size = 1152, intermediate_size = 4304, num_heads = 16;
  int position_side = 48;   // the root of num_position_embeddings
  bool exact_gelu = false;  // hidden_act "gelu" instead of "gelu_pytorch_tanh"
  int image_token = -1;
  images::Settings settings;
};

struct Config final : FamilyConfig {
  bool moe_family = false;  // any model_type but qwen3_5 and qwen3_5_text
  bool next = false;        // model_type qwen3_next: a flat config and fused projections of linear attention

  int vocab_size = 248320;
  int hidden_size = 4096;
  int intermediate_size = 12288;  // dense MLP
  int num_layers = 32;
  int num_heads = 16;
  int num_kv_heads = 4;
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
  std::optional<VisionConfig> vision;
  SamplingParams sampling;  // suggested

  std::vector<int> eos_ids;  // generation_config's first, then config's; without duplicates
  std::optional<int> bos_id;

  /// `files` must be of a model_type of this family.
  static Result<Config> read(const format::ConfigFiles& files, const std::string& model_type);
  ModelFacts facts() const override;

  int qkv_rows() const {
    return 2 * linear_key_heads * linear_key_dim + linear_value_heads * linear_value_dim;
  }
};

}  // namespace ft::qwen3_5
