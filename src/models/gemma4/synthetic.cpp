// The published sizes of Gemma 4 text models, with tensors and config under the names of MLX conversions.

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/gemma4/family.h"
#include "models/synthetic/shapes.h"

namespace ft::gemma4 {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

constexpr int kHeadDim = 256, kFullHeadDim = 512;
constexpr int kGemmaWords = 262144;

constexpr Shape kShapes[] = {
    {"gemma4-31b", 5376, 60, 21504, 32, 16, 0, 0, true, kGemmaWords, 262144, 0, 0, 0,
     GemmaSizes{4, 1024, 6, true}},
    {"gemma4-26b-a4b", 2816, 30, 2112, 16, 8, 0, 0, true, kGemmaWords, 262144, 128, 8, 704,
     GemmaSizes{2, 1024, 6, true}},
    {"gemma4-e4b", 2560, 42, 10240, 8, 2, 0, 0, true, kGemmaWords, 131072, 0, 0, 0,
     GemmaSizes{2, 512, 6, false, 256, 18}},
    {"gemma4-e2b", 1536, 35, 6144, 8, 1, 0, 0, true, kGemmaWords, 131072, 0, 0, 0,
     GemmaSizes{1, 512, 5, false, 256, 20, true}},
};

bool full_attention(const Shape& shape, int layer) {
  return (layer + 1) % shape.gemma->full_every == 0 || layer + 1 == shape.layers;
}

/// The last layers that read the keys and values of earlier ones. With fewer layers than published, the first
/// period of sliding and full layers keeps its own.
int shared_layers(const Shape& shape) {
  return std::clamp(shape.layers - shape.gemma->full_every, 0, shape.gemma->shared_layers);
}

class Tensors {
 public:
  explicit Tensors(const Shape& shape) : shape_(shape), sizes_(*shape.gemma) {}

  void model() {
    matrix(model_ + "embed_tokens", shape_.vocabulary, shape_.hidden, 2);
    for (int i = 0; i < shape_.layers; ++i) layer(fmt::format("{}layers.{}.", model_, i), i);
    norm(model_ + "norm", shape_.hidden);
    if (sizes_.per_layer > 0) {
      const std::int64_t width = std::int64_t{sizes_.per_layer} * shape_.layers;
      matrix(model_ + "embed_tokens_per_layer", shape_.vocabulary, width, 1);
      matrix(model_ + "per_layer_model_projection", width, shape_.hidden, 1);
      norm(model_ + "per_layer_projection_norm", sizes_.per_layer);
    }
    if (!shape_.tied) matrix("language_model.lm_head", shape_.vocabulary, shape_.hidden, 2);
  }
  std::vector<SynthTensor> list;

 private:
  void matrix(const std::string& module, std::int64_t rows, std::int64_t cols, double scale = 1) {
    list.push_back({module, Kind::kMatrix, rows, cols, scale});
  }
  void stack(const std::string& module, std::int64_t rows, std::int64_t cols) {
    list.push_back({module, Kind::kMatrix, shape_.experts * rows, cols, 1, shape_.experts});
  }
  void norm(const std::string& module, std::int64_t width) {
    list.push_back({module, Kind::kNorm, 1, width, 1});
  }
  void bare(const std::string& name, std::int64_t width) {
    list.push_back({name, Kind::kBareNorm, 1, width, 1});
  }

  void layer(const std::string& prefix, int number) {
    for (const char* leaf : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                             "post_feedforward_layernorm"})
      norm(prefix + leaf, shape_.hidden);
    const bool shared = number >= shape_.layers - shared_layers(shape_);
    attention(prefix + "self_attn.", full_attention(shape_, number), shared);
    const int width = shape_.intermediate * (sizes_.wide_when_shared && shared ? 2 : 1);
    matrix(prefix + "mlp.gate_proj", width, shape_.hidden);
    matrix(prefix + "mlp.up_proj", width, shape_.hidden);
    matrix(prefix + "mlp.down_proj", shape_.hidden, width);
    if (shape_.experts > 0) experts(prefix);
    if (sizes_.per_layer > 0) {
      matrix(prefix + "per_layer_input_gate", sizes_.per_layer, shape_.hidden);
      matrix(prefix + "per_layer_projection", shape_.hidden, sizes_.per_layer);
      norm(prefix + "post_per_layer_input_norm", shape_.hidden);
    }
    bare(prefix + "layer_scalar", 1);
  }

  void attention(const std::string& prefix, bool full, bool shared) {
    const int head = full ? kFullHeadDim : kHeadDim;
    const std::int64_t width = std::int64_t{shape_.heads} * head;
    const std::int64_t kv_width = std::int64_t{full ? sizes_.full_kv_heads : shape_.kv_heads} * head;
    matrix(prefix + "q_proj", width, shape_.hidden);
    matrix(prefix + "o_proj", shape_.hidden, width);
    norm(prefix + "q_norm", head);
    if (shared) return;
    matrix(prefix + "k_proj", kv_width, shape_.hidden);
    if (!full || !sizes_.k_is_v) matrix(prefix + "v_proj", kv_width, shape_.hidden);
    norm(prefix + "k_norm", head);
  }

  void experts(const std::string& prefix) {
    for (const char* leaf :
         {"post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"})
      norm(prefix + leaf, shape_.hidden);
    list.push_back({prefix + "router.proj", Kind::kPlainMatrix, shape_.experts, shape_.hidden, 1});
    bare(prefix + "router.scale", shape_.hidden);
    bare(prefix + "router.per_expert_scale", shape_.experts);
    const std::string routed = prefix + "experts.switch_glu.";
    stack(routed + "gate_proj", shape_.expert, shape_.hidden);
    stack(routed + "up_proj", shape_.expert, shape_.hidden);
    stack(routed + "down_proj", shape_.hidden, shape_.expert);
  }

  const std::string model_ = "language_model.model.";
  const Shape& shape_;
  const GemmaSizes& sizes_;
};

std::vector<SynthTensor> target_of(const Shape& shape) {
  Tensors tensors(shape);
  tensors.model();
  return std::move(tensors.list);
}

Json config_of(const Shape& shape, bool /*mtp*/) {
  const GemmaSizes& sizes = *shape.gemma;
  Json layers = Json::array();
  for (int i = 0; i < shape.layers; ++i)
    layers.push_back(full_attention(shape, i) ? "full_attention" : "sliding_attention");
  Json text{{"model_type", "gemma4_text"},
            {"vocab_size", shape.vocabulary},
            {"vocab_size_per_layer_input", shape.vocabulary},
            {"hidden_size", shape.hidden},
            {"intermediate_size", shape.intermediate},
            {"num_hidden_layers", shape.layers},
            {"num_attention_heads", shape.heads},
            {"num_key_value_heads", shape.kv_heads},
            {"head_dim", kHeadDim},
            {"global_head_dim", kFullHeadDim},
            {"attention_k_eq_v", sizes.k_is_v},
            {"sliding_window", sizes.window},
            {"layer_types", std::move(layers)},
            {"final_logit_softcapping", 30.0},
            {"rms_norm_eps", 1e-6},
            {"hidden_activation", "gelu_pytorch_tanh"},
            {"attention_bias", false},
            {"hidden_size_per_layer_input", sizes.per_layer},
            {"num_kv_shared_layers", shared_layers(shape)},
            {"use_double_wide_mlp", sizes.wide_when_shared},
            {"max_position_embeddings", shape.context},
            {"tie_word_embeddings", shape.tied}};
  if (sizes.k_is_v) text["num_global_key_value_heads"] = sizes.full_kv_heads;
  if (shape.experts > 0) {
    text["enable_moe_block"] = true;
    text["num_experts"] = shape.experts, text["top_k_experts"] = shape.chosen;
    text["moe_intermediate_size"] = shape.expert;
  }
  return Json{{"architectures", {"Gemma4ForConditionalGeneration"}},
              {"model_type", "gemma4"},
              {"tie_word_embeddings", shape.tied},
              {"text_config", text}};
}

}  // namespace

const SyntheticModels kSynthetic = {kShapes, target_of, nullptr, config_of};

}  // namespace ft::gemma4
