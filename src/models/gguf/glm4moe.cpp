// GLM-4.5 and later, as llama.cpp's conversion arranges them: the MTP head is the last block, with copies of
// the embedding and the LM head in some files. Source: llama.cpp, conversion/glm.py.
#include <nlohmann/json.hpp>

#include "models/gguf/architecture.h"

namespace ft::gguf {
namespace {

using format::GgufFile;
using format::GgufTensor;
using nlohmann::json;

constexpr NameRow kGlm4MoeLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias"},  // of older files
    {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"},
};
/// Names in the MTP head (models/head_layer.h).
constexpr NameRow kGlm4MoeHeadNames[] = {
    {"nextn.eh_proj.weight", "mtp.fc.weight"},
    {"nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "mtp.norm.weight"},
    {"nextn.embed_tokens.weight", ""},
    {"nextn.shared_head_head.weight", ""},
};
constexpr NameRow kGlm4MoeOtherNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

class Glm4Moe final : public Architecture {
 public:
  Glm4Moe(const GgufFile& file, std::int64_t layers) : file_(file), layers_(layers) {}

  std::optional<Place> place(const GgufTensor& tensor) const override {
    for (const NameRow& row : kGlm4MoeOtherNames) {
      if (row.gguf == tensor.name) return Place{std::string(row.own)};
    }
    const std::optional<BlockName> block = block_name(tensor.name);
    if (!block || block->block > layers_) return std::nullopt;
    const bool head = block->block == layers_;
    for (const NameRow& row : kGlm4MoeHeadNames) {
      if (head && row.gguf == block->rest) return Place{std::string(row.own)};
    }
    const std::string prefix = head ? "mtp.layers.0." : "model.layers." + std::to_string(block->block) + ".";
    if (const std::string experts = experts_name(file_, *block); !experts.empty())
      return Place{prefix + experts};
    for (const NameRow& row : kGlm4MoeLayerNames) {
      if (row.gguf == block->rest) return Place{prefix + std::string(row.own)};
    }
    return std::nullopt;
  }

  json config() const override {
    const std::int64_t heads = whole("attention.head_count", 0);
    const std::int64_t head_dim =
        whole("attention.key_length", heads > 0 ? whole("embedding_length", 0) / heads : 0);
    const format::GgufValue* norm = file_.find("glm4moe.expert_weights_norm");
    const bool* renormalised = norm == nullptr ? nullptr : std::get_if<bool>(norm);
    json config = {{"model_type", "glm4_moe"},
                   {"architectures", {"Glm4MoeForCausalLM"}},
                   {"vocab_size", vocabulary_of(file_)},
                   {"hidden_size", whole("embedding_length", 0)},
                   {"intermediate_size", whole("feed_forward_length", 0)},
                   {"num_hidden_layers", layers_},
                   {"num_attention_heads", heads},
                   {"num_key_value_heads", whole("attention.head_count_kv", heads)},
                   {"head_dim", head_dim},
                   {"rms_norm_eps", file_.real("glm4moe.attention.layer_norm_rms_epsilon", 1e-5)},
                   {"max_position_embeddings", whole("context_length", 131072)},
                   {"rope_theta", file_.real("glm4moe.rope.freq_base", 1e6)},
                   {"attention_bias", has_tensor(file_, "blk.0.attn_q.bias")},
                   {"use_qk_norm", has_tensor(file_, "blk.0.attn_q_norm.weight")},
                   {"first_k_dense_replace", whole("leading_dense_block_count", 1)},
                   {"n_routed_experts", whole("expert_count", 0)},
                   {"num_experts_per_tok", whole("expert_used_count", 0)},
                   {"n_shared_experts", whole("expert_shared_count", 0)},
                   {"moe_intermediate_size", whole("expert_feed_forward_length", 0)},
                   {"n_group", whole("expert_group_count", 1)},
                   {"routed_scaling_factor", file_.real("glm4moe.expert_weights_scale", 1)},
                   {"norm_topk_prob", renormalised == nullptr || *renormalised},
                   {"num_nextn_predict_layers", whole("nextn_predict_layers", 0)},
                   {"tie_word_embeddings", !has_tensor(file_, "output.weight")}};
    if (head_dim > 0) {
      config["partial_rotary_factor"] =
          static_cast<double>(whole("rope.dimension_count", head_dim / 2)) / static_cast<double>(head_dim);
    }
    return config;
  }

 private:
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return file_.whole(std::string("glm4moe.") + name, otherwise);
  }

  const GgufFile& file_;
  std::int64_t layers_;
};

}  // namespace

Result<std::unique_ptr<Architecture>> open_glm4moe(const GgufFile& file, const std::string& path) {
  constexpr std::int64_t kSigmoid = 2;
  const std::int64_t layers =
      file.whole("glm4moe.block_count", 0) - file.whole("glm4moe.nextn_predict_layers", 0);
  if (layers < 1 || layers > 1 << 20) {
    return Error{Code::kCorrupt, path +
                                     ": its metadata lack layers (glm4moe.block_count); download the file "
                                     "again"};
  }
  if (file.whole("glm4moe.expert_gating_func", kSigmoid) != kSigmoid) {
    return Error{Code::kUnsupported, path +
                                         ": glm4moe.expert_gating_func: expected 2 (sigmoid); use the "
                                         "original repository"};
  }
  return std::unique_ptr<Architecture>(std::make_unique<Glm4Moe>(file, layers));
}

}  // namespace ft::gguf
