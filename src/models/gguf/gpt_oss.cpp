// gpt-oss. Rows are in the order of the original, but gate and up are apart.
#include <nlohmann/json.hpp>

#include "models/gguf/architecture.h"

namespace ft::gguf {
namespace {

using format::GgufFile;
using format::GgufTensor;
using nlohmann::json;

constexpr NameRow kGptOssLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"ffn_gate_inp.weight", "mlp.router.weight"},
    {"ffn_gate_inp.bias", "mlp.router.bias"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.experts.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj.weight"},
    {"ffn_gate_exps.bias", "mlp.experts.gate_proj.bias"},
    {"ffn_up_exps.bias", "mlp.experts.up_proj.bias"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj.bias"},
};
constexpr NameRow kGptOssOtherNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

class GptOss final : public Architecture {
 public:
  explicit GptOss(const GgufFile& file) : file_(file), layers_(whole("block_count", 0)) {}

  std::optional<Place> place(const GgufTensor& tensor) const override {
    for (const NameRow& row : kGptOssOtherNames) {
      if (row.gguf == tensor.name) return Place{std::string(row.own)};
    }
    const std::optional<BlockName> block = block_name(tensor.name);
    if (!block || block->block >= layers_) return std::nullopt;
    for (const NameRow& row : kGptOssLayerNames) {
      if (row.gguf == block->rest)
        return Place{"model.layers." + std::to_string(block->block) + "." + std::string(row.own)};
    }
    return std::nullopt;
  }

  json config() const override {
    const std::int64_t hidden = whole("embedding_length", 0), heads = whole("attention.head_count", 0);
    const std::int64_t size = whole("expert_feed_forward_length", whole("feed_forward_length", 0));
    json config = {{"model_type", "gpt_oss"},
                   {"architectures", {"GptOssForCausalLM"}},
                   {"vocab_size", vocabulary_of(file_)},
                   {"hidden_size", hidden},
                   {"intermediate_size", size},
                   {"num_hidden_layers", layers_},
                   {"num_attention_heads", heads},
                   {"num_key_value_heads", whole("attention.head_count_kv", heads)},
                   {"head_dim", whole("attention.key_length", 64)},
                   {"num_local_experts", whole("expert_count", 0)},
                   {"num_experts_per_tok", whole("expert_used_count", 0)},
                   {"sliding_window", whole("attention.sliding_window", 128)},
                   {"attention_bias", has_tensor(file_, "blk.0.attn_q.bias")},
                   {"hidden_act", "silu"},
                   {"rms_norm_eps", real("attention.layer_norm_rms_epsilon", 1e-5)},
                   {"max_position_embeddings", whole("context_length", 131072)},
                   {"rope_theta", real("rope.freq_base", 150000)},
                   {"tie_word_embeddings", !has_tensor(file_, "output.weight")}};
    const std::string type = file_.text("gpt-oss.rope.scaling.type", "none");
    config["rope_scaling"] = {{"rope_type", type == "none" ? "default" : type}};
    if (type == "none") return config;
    config["rope_scaling"].update(
        {{"factor", real("rope.scaling.factor", 1)},
         {"beta_fast", real("rope.scaling.yarn_beta_fast", 32)},
         {"beta_slow", real("rope.scaling.yarn_beta_slow", 1)},
         {"truncate", false},
         {"original_max_position_embeddings", whole("rope.scaling.original_context_length", 4096)}});
    return config;
  }

 private:
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return file_.whole(std::string("gpt-oss.") + name, otherwise);
  }
  double real(const char* name, double otherwise) const {
    return file_.real(std::string("gpt-oss.") + name, otherwise);
  }

  const GgufFile& file_;
  std::int64_t layers_;
};

}  // namespace

Result<std::unique_ptr<Architecture>> open_gpt_oss(const GgufFile& file, const std::string& /*path*/) {
  return std::unique_ptr<Architecture>(std::make_unique<GptOss>(file));
}

}  // namespace ft::gguf
