// The published sizes of GLM-4.5 and later, and their tensors and config under the names of MLX conversions,
// which are Hugging Face's.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/glm4_moe/family.h"
#include "models/synthetic/shapes.h"

namespace ft::glm4_moe {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

constexpr Shape shape(std::string_view name, int hidden, int layers, int expert, std::int64_t context,
                      GlmSizes own) {
  return {name, hidden, layers, expert, 96, 8, 0, 0, false, 151552, context, 128, 8, expert, {}, {}, own};
}
constexpr Shape large(std::string_view name, std::int64_t context) {
  Shape made = shape(name, 5120, 92, 1536, context, {128, 3, 12288, true, 2.5});
  made.experts = 160;
  return made;
}
constexpr Shape tiny() {
  Shape made = shape("tiny-glm", 256, 6, 64, 32768, {64, 1, 512, true, 2.5});
  made.heads = 6, made.kv_heads = 2, made.vocabulary = 8192;
  made.experts = 32, made.chosen = 4;
  return made;
}
constexpr Shape kShapes[] = {
    tiny(),
    shape("glm4.5-air", 4096, 46, 1408, 131072, {128, 1, 10944, false, 1}),
    large("glm4.5", 131072),
    large("glm4.6", 202752),
    large("glm4.7", 202752),
};

class Tensors {
 public:
  explicit Tensors(const Shape& shape) : s_(shape) {}

  void model() {
    // Spreads logits over a few units, as a trained LM head does.
    matrix("model.embed_tokens", s_.vocabulary, s_.hidden, 2);
    for (int i = 0; i < s_.layers; ++i) layer(fmt::format("model.layers.{}.", i), i >= s_.glm->dense_layers);
    norm("model.norm", s_.hidden);
    if (!s_.tied) matrix("lm_head", s_.vocabulary, s_.hidden, 2);
  }
  void head() {
    norm("mtp.pre_fc_norm_embedding", s_.hidden);
    norm("mtp.pre_fc_norm_hidden", s_.hidden);
    list.push_back({"mtp.fc", Kind::kPlainMatrix, s_.hidden, 2 * std::int64_t{s_.hidden}, 1});
    layer("mtp.layers.0.", true);
    norm("mtp.norm", s_.hidden);
  }
  std::vector<SynthTensor> list;

 private:
  void matrix(const std::string& module, std::int64_t rows, std::int64_t cols, double scale = 1) {
    list.push_back({module, Kind::kMatrix, rows, cols, scale});
  }
  void norm(const std::string& module, std::int64_t width) {
    list.push_back({module, Kind::kNorm, 1, width, 1});
  }
  void mlp(const std::string& prefix, int width) {
    matrix(prefix + "gate_proj", width, s_.hidden);
    matrix(prefix + "up_proj", width, s_.hidden);
    matrix(prefix + "down_proj", s_.hidden, width);
  }

  void layer(const std::string& prefix, bool sparse) {
    norm(prefix + "input_layernorm", s_.hidden);
    attention(prefix + "self_attn.");
    norm(prefix + "post_attention_layernorm", s_.hidden);
    if (!sparse) return mlp(prefix + "mlp.", s_.glm->dense_size);
    mlp(prefix + "mlp.shared_experts.", s_.intermediate);
    experts(prefix + "mlp.");
  }

  void attention(const std::string& prefix) {
    const std::int64_t width = std::int64_t{s_.heads} * s_.glm->head_dim;
    const std::int64_t kv_width = std::int64_t{s_.kv_heads} * s_.glm->head_dim;
    for (const auto& [leaf, rows] :
         {std::pair("q_proj", width), {"k_proj", kv_width}, {"v_proj", kv_width}}) {
      matrix(prefix + leaf, rows, s_.hidden);
      list.push_back({prefix + leaf + ".bias", Kind::kBias, 1, rows, 0.2});
    }
    matrix(prefix + "o_proj", s_.hidden, width);
    if (!s_.glm->qk_norm) return;
    norm(prefix + "q_norm", s_.glm->head_dim);
    norm(prefix + "k_norm", s_.glm->head_dim);
  }

  void experts(const std::string& prefix) {
    list.push_back({prefix + "gate", Kind::kPlainMatrix, s_.experts, s_.hidden, 1});
    list.push_back({prefix + "gate.e_score_correction_bias", Kind::kBias, 1, s_.experts, 0.1});
    const auto stack = [&](const char* leaf, std::int64_t rows, std::int64_t cols) {
      list.push_back({prefix + "switch_mlp." + leaf, Kind::kMatrix, s_.experts * rows, cols, 1, s_.experts});
    };
    stack("gate_proj", s_.expert, s_.hidden);
    stack("up_proj", s_.expert, s_.hidden);
    stack("down_proj", s_.hidden, s_.expert);
  }

  const Shape& s_;
};

std::vector<SynthTensor> target_of(const Shape& shape) {
  Tensors tensors(shape);
  tensors.model();
  return std::move(tensors.list);
}

std::vector<SynthTensor> head_of(const Shape& shape) {
  Tensors tensors(shape);
  tensors.head();
  return std::move(tensors.list);
}

Json config_of(const Shape& shape, bool mtp) {
  const GlmSizes& own = *shape.glm;
  return {{"architectures", {"Glm4MoeForCausalLM"}},
          {"model_type", "glm4_moe"},
          {"vocab_size", shape.vocabulary},
          {"hidden_size", shape.hidden},
          {"intermediate_size", own.dense_size},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", own.head_dim},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", shape.context},
          {"attention_bias", true},
          {"use_qk_norm", own.qk_norm},
          {"rope_theta", 1000000},
          {"partial_rotary_factor", 0.5},
          {"rope_scaling", nullptr},
          {"first_k_dense_replace", own.dense_layers},
          {"n_routed_experts", shape.experts},
          {"num_experts_per_tok", shape.chosen},
          {"n_shared_experts", 1},
          {"moe_intermediate_size", shape.expert},
          {"n_group", 1},
          {"topk_group", 1},
          {"norm_topk_prob", true},
          {"routed_scaling_factor", own.factor},
          {"num_nextn_predict_layers", mtp ? 1 : 0},
          {"tie_word_embeddings", shape.tied}};
}

}  // namespace

const SyntheticModels kSynthetic = {kShapes, target_of, head_of, config_of};

}  // namespace ft::glm4_moe
