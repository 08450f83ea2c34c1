// The published sizes of Qwen3.5 and Qwen3-Next, and their tensors and config under the names of MLX
// conversions.
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/qwen3_5/family.h"
#include "models/qwen3_5/names.h"
#include "models/synthetic/shapes.h"

namespace ft::qwen3_5 {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

constexpr Shape kShapes[] = {
    {"tiny", 320, 16, 960, 4, 2, 2, 4, true, 8192, 32768},
    {"tiny-experts", 256, 8, 256, 4, 2, 2, 4, true, 8192, 32768, 32, 4, 64},
    {"qwen3.5-0.8b", 1024, 24, 3584, 8, 2, 16, 16, true},
    {"qwen3.5-2b", 2048, 24, 6144, 8, 2, 16, 16, true},
    {"qwen3.5-4b", 2560, 32, 9216, 16, 4, 16, 32, true},
    {"qwen3.5-9b", 4096, 32, 12288, 16, 4, 16, 32, false},
    {"qwen3.5-27b", 5120, 64, 17408, 24, 4, 16, 48, false},
    {"qwen3.8-27b", 5120, 64, 17408, 24, 4, 16, 48, false},
    {"qwen3.5-35b-a3b", 2048, 40, 512, 16, 2, 16, 32, false, 248320, 262144, 256, 8, 512},
    {"qwen3.5-122b-a10b", 3072, 48, 1024, 32, 2, 16, 64, false, 248320, 262144, 256, 8, 1024},
};
constexpr Shape kNextShapes[] = {
    {"tiny-next", 256, 8, 128, 4, 2, 2, 4, false, 8192, 32768, 32, 4, 64},
    {"qwen3-next-80b-a3b", 2048, 48, 512, 16, 2, 16, 32, false, 151936, 262144, 512, 10, 512},
};

void add_norm(std::vector<SynthTensor>& list, std::string module, std::int64_t width) {
  list.push_back({std::move(module), Kind::kNorm, 1, width, 1});
}

void add_attention(std::vector<SynthTensor>& list, const std::string& prefix, const Shape& shape) {
  const std::int64_t width = std::int64_t{shape.heads} * Shape::kHeadDim;
  const std::int64_t kv_width = std::int64_t{shape.kv_heads} * Shape::kHeadDim;
  list.push_back({prefix + "q_proj", Kind::kMatrix, 2 * width, shape.hidden, 1});  // with the output gate
  list.push_back({prefix + "k_proj", Kind::kMatrix, kv_width, shape.hidden, 1});
  list.push_back({prefix + "v_proj", Kind::kMatrix, kv_width, shape.hidden, 1});
  list.push_back({prefix + "o_proj", Kind::kMatrix, shape.hidden, width, 1});
  add_norm(list, prefix + "q_norm", Shape::kHeadDim);
  add_norm(list, prefix + "k_norm", Shape::kHeadDim);
}

/// `next`: the projections are fused, as Qwen3-Next stores them.
void add_gated_delta(std::vector<SynthTensor>& list, const std::string& prefix, const Shape& shape,
                     bool next) {
  const std::int64_t values = std::int64_t{shape.value_heads} * Shape::kLinearDim;
  if (next) {
    list.push_back({prefix + "in_proj_qkvz", Kind::kMatrix, shape.qkv_rows() + values, shape.hidden, 1});
    list.push_back({prefix + "in_proj_ba", Kind::kMatrix, 2 * shape.value_heads, shape.hidden, 1});
  } else {
    list.push_back({prefix + "in_proj_qkv", Kind::kMatrix, shape.qkv_rows(), shape.hidden, 1});
    list.push_back({prefix + "in_proj_z", Kind::kMatrix, values, shape.hidden, 1});
    list.push_back({prefix + "in_proj_a", Kind::kMatrix, shape.value_heads, shape.hidden, 1});
    list.push_back({prefix + "in_proj_b", Kind::kMatrix, shape.value_heads, shape.hidden, 1});
  }
  list.push_back({prefix + "conv1d", Kind::kConv, shape.qkv_rows(), Shape::kConvTaps, 1});
  list.push_back({prefix + "A_log", Kind::kDecay, 1, shape.value_heads, 1});
  list.push_back({prefix + "dt_bias", Kind::kTimeBias, 1, shape.value_heads, 1});
  add_norm(list, prefix + "norm", Shape::kLinearDim);
  list.push_back({prefix + "out_proj", Kind::kMatrix, shape.hidden, values, 1});
}

void add_layer(std::vector<SynthTensor>& list, const std::string& prefix, const Shape& shape,
               bool full_attention, bool next) {
  add_norm(list, prefix + "input_layernorm", shape.hidden);
  if (full_attention) {
    add_attention(list, prefix + "self_attn.", shape);
  } else {
    add_gated_delta(list, prefix + "linear_attn.", shape, next);
  }
  add_norm(list, prefix + "post_attention_layernorm", shape.hidden);
  const std::string mlp = prefix + (shape.experts > 0 ? "mlp.shared_expert." : "mlp.");
  list.push_back({mlp + "gate_proj", Kind::kMatrix, shape.intermediate, shape.hidden, 1});
  list.push_back({mlp + "up_proj", Kind::kMatrix, shape.intermediate, shape.hidden, 1});
  list.push_back({mlp + "down_proj", Kind::kMatrix, shape.hidden, shape.intermediate, 1});
  if (shape.experts == 0) return;
  list.push_back({prefix + "mlp.gate", Kind::kPlainMatrix, shape.experts, shape.hidden, 1});
  list.push_back({prefix + "mlp.shared_expert_gate", Kind::kPlainMatrix, 1, shape.hidden, 1});
  const std::string routed = prefix + "mlp.switch_mlp.";
  const std::int64_t rows = std::int64_t{shape.experts} * shape.expert;
  list.push_back({routed + "gate_proj", Kind::kMatrix, rows, shape.hidden, 1, shape.experts});
  list.push_back({routed + "up_proj", Kind::kMatrix, rows, shape.hidden, 1, shape.experts});
  list.push_back({routed + "down_proj", Kind::kMatrix, std::int64_t{shape.experts} * shape.hidden,
                  shape.expert, 1, shape.experts});
}

std::vector<SynthTensor> tensors_of(const Shape& shape, bool next) {
  std::vector<SynthTensor> list;
  const std::string outer = next ? "" : "language_model.", model = outer + "model.";
  // Spreads logits over a few units, as a trained LM head does.
  list.push_back({model + "embed_tokens", Kind::kMatrix, shape.vocabulary, shape.hidden, 2});
  for (int i = 0; i < shape.layers; ++i) {
    add_layer(list, fmt::format("{}layers.{}.", model, i), shape, shape.full_attention(i), next);
  }
  add_norm(list, model + "norm", shape.hidden);
  if (!shape.tied) list.push_back({outer + "lm_head", Kind::kMatrix, shape.vocabulary, shape.hidden, 2});
  return list;
}

std::vector<SynthTensor> target_of(const Shape& shape) { return tensors_of(shape, false); }
std::vector<SynthTensor> next_target_of(const Shape& shape) { return tensors_of(shape, true); }

std::vector<SynthTensor> head_of(const Shape& shape) {
  std::vector<SynthTensor> list;
  for (HeadTensor& tensor : qwen3_5::head_tensors(
           {1, shape.hidden, shape.intermediate, shape.heads, shape.kv_heads, Shape::kHeadDim, true,
            shape.experts, shape.expert, shape.intermediate, ExpertLayout::kStacks})) {
    const bool norm = tensor.kind == HeadTensor::Kind::kNorm;
    // Conversions leave the matrix that joins embedding and hidden state unquantised; here routers too.
    const bool plain = tensor.name == "mtp.fc" || tensor.name.ends_with(".mlp.gate") ||
                       tensor.name.ends_with("shared_expert_gate");
    const Kind kind = norm ? Kind::kNorm : plain ? Kind::kPlainMatrix : Kind::kMatrix;
    list.push_back({std::move(tensor.name), kind, tensor.rows * std::max(1, tensor.stack), tensor.cols, 1,
                    tensor.stack});
  }
  return list;
}

Json config_of(const Shape& shape, bool mtp) {
  Json layers = Json::array();
  for (int i = 0; i < shape.layers; ++i) {
    layers.push_back(shape.full_attention(i) ? "full_attention" : "linear_attention");
  }
  const bool moe = shape.experts > 0;
  Json text{{"model_type", moe ? "qwen3_5_moe_text" : "qwen3_5_text"},
            {"vocab_size", shape.vocabulary},
            {"hidden_size", shape.hidden},
            {"intermediate_size", shape.intermediate},
            {"num_hidden_layers", shape.layers},
            {"num_attention_heads", shape.heads},
            {"num_key_value_heads", shape.kv_heads},
            {"head_dim", Shape::kHeadDim},
            {"hidden_act", "silu"},
            {"rms_norm_eps", 1e-6},
            {"max_position_embeddings", shape.context},
            {"attention_bias", false},
            {"attn_output_gate", true},
            {"full_attention_interval", Shape::kFullEvery},
            {"layer_types", std::move(layers)},
            {"linear_conv_kernel_dim", Shape::kConvTaps},
            {"linear_key_head_dim", Shape::kLinearDim},
            {"linear_value_head_dim", Shape::kLinearDim},
            {"linear_num_key_heads", shape.key_heads},
            {"linear_num_value_heads", shape.value_heads},
            {"mamba_ssm_dtype", "float32"},
            {"mtp_num_hidden_layers", mtp ? 1 : 0},
            {"mtp_use_dedicated_embeddings", false},
            {"tie_word_embeddings", shape.tied},
            {"rope_parameters",
             {{"rope_type", "default"},
              {"rope_theta", 10000000},
              {"partial_rotary_factor", 0.25},
              {"mrope_section", {11, 11, 10}},
              {"mrope_interleaved", true}}}};
  if (moe) {
    text.erase("intermediate_size");
    text["num_experts"] = shape.experts, text["num_experts_per_tok"] = shape.chosen;
    text["moe_intermediate_size"] = shape.expert;
    text["shared_expert_intermediate_size"] = shape.intermediate;
  }
  return Json{
      {"architectures", {moe ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration"}},
      {"model_type", moe ? "qwen3_5_moe" : "qwen3_5"},
      {"tie_word_embeddings", shape.tied},
      {"text_config", text}};
}

Json next_config_of(const Shape& shape, bool mtp) {
  Json config = config_of(shape, mtp)["text_config"];
  for (const char* key : {"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "rope_parameters",
                          "attn_output_gate", "mamba_ssm_dtype"})
    config.erase(key);
  config["architectures"] = {"Qwen3NextForCausalLM"}, config["model_type"] = "qwen3_next";
  config["norm_topk_prob"] = true, config["rope_scaling"] = nullptr;
  config["rope_theta"] = 10000000, config["partial_rotary_factor"] = 0.25;
  return config;
}

}  // namespace

const SyntheticModels kSynthetic = {kShapes, target_of, head_of, config_of};
const SyntheticModels kNextSynthetic = {kNextShapes, next_target_of, head_of, next_config_of};

}  // namespace ft::qwen3_5
