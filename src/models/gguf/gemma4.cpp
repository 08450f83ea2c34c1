// Gemma 4, as llama.cpp's conversion arranges it: norms as they are, experts' gates and ups in one stack, the
// proportional rotation of full attention as a tensor of 1 for pairs that turn and 1e30 for the others.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "format/gguf/blocks.h"
#include "format/tensor.h"
#include "models/gguf/architecture.h"

namespace ft::gguf {
namespace {

using format::GgufFile;
using format::GgufTensor;
using format::GgufValue;
using nlohmann::json;

constexpr NameRow kGemma4LayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"},
    {"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"},
    {"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "router.proj.weight"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_gate_up_exps.weight", "experts.gate_up_proj"},
    {"ffn_down_exps.weight", "experts.down_proj"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"inp_gate.weight", "per_layer_input_gate.weight"},
    {"proj.weight", "per_layer_projection.weight"},
    {"post_norm.weight", "post_per_layer_input_norm.weight"},
};
constexpr NameRow kGemma4OtherNames[] = {
    {"token_embd.weight", "embed_tokens.weight"},
    {"output_norm.weight", "norm.weight"},
    {"per_layer_token_embd.weight", "embed_tokens_per_layer.weight"},
    {"per_layer_model_proj.weight", "per_layer_model_projection.weight"},
    {"per_layer_proj_norm.weight", "per_layer_projection_norm.weight"},
};
constexpr const char* kPrefix = "model.language_model.";

class Gemma4 final : public Architecture {
 public:
  Gemma4(const GgufFile& file, std::int64_t layers, std::vector<bool> sliding)
      : file_(file), layers_(layers), sliding_(std::move(sliding)) {}

  json config() const override;

  std::optional<Place> place(const GgufTensor& tensor) const override {
    if (tensor.name == "output.weight") return Place{"lm_head.weight"};
    for (const NameRow& row : kGemma4OtherNames) {
      if (row.gguf == tensor.name) return Place{kPrefix + std::string(row.own)};
    }
    const std::optional<BlockName> block = block_name(tensor.name);
    if (!block || block->block >= layers_) return std::nullopt;
    for (const NameRow& row : kGemma4LayerNames) {
      if (row.gguf == block->rest)
        return Place{kPrefix + ("layers." + std::to_string(block->block) + "." + std::string(row.own))};
    }
    return std::nullopt;
  }

 private:
  std::int64_t whole(const std::string& name, std::int64_t otherwise) const {
    return file_.whole("gemma4." + name, otherwise);
  }
  /// A number for each layer, which may be stored once for all.
  std::int64_t of_layer(const std::string& name, std::size_t layer) const {
    const GgufValue* value = file_.find("gemma4." + name);
    const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(value);
    return list == nullptr || layer >= list->size() ? whole(name, 0) : (*list)[layer];
  }
  /// The first layer that slides, or the first that does not.
  std::size_t first_layer(bool slides) const {
    const auto at = std::ranges::find(sliding_, slides);
    return at == sliding_.end() ? 0 : static_cast<std::size_t>(at - sliding_.begin());
  }
  /// The fraction of the pairs of full attention that turn.
  double proportion(std::int64_t head_dim) const {
    for (const GgufTensor& tensor : file_.tensors) {
      if (tensor.name != "rope_freqs.weight" || tensor.shape != std::vector<std::int64_t>{head_dim / 2})
        continue;
      std::vector<float> factors(static_cast<std::size_t>(head_dim / 2));
      format::gguf_matrix(tensor.type, 1, head_dim / 2, tensor.bytes.data(), true)
          ->read(0, 1, factors.data());
      return static_cast<double>(std::ranges::count(factors, 1.0F)) / static_cast<double>(factors.size());
    }
    return 1;
  }

  const GgufFile& file_;
  std::int64_t layers_;
  std::vector<bool> sliding_;
};

json Gemma4::config() const {
  const std::size_t slides = first_layer(true), full = first_layer(false);
  const std::int64_t head_dim = whole("attention.key_length_swa", 256);
  const std::int64_t full_dim = whole("attention.key_length", 512);
  const std::string full_layer = "blk." + std::to_string(full) + ".";
  const std::int64_t inner = of_layer("feed_forward_length", 0);
  json types = json::array();
  for (const bool is_sliding : sliding_) types.push_back(is_sliding ? "sliding_attention" : "full_attention");
  const bool tied = !has_tensor(file_, "output.weight");
  const std::int64_t experts = whole("expert_count", 0);
  std::int64_t per_layer_rows = vocabulary_of(file_);
  for (const GgufTensor& tensor : file_.tensors) {
    if (tensor.name == "per_layer_token_embd.weight" && tensor.shape.size() == 2)
      per_layer_rows = tensor.shape[0];
  }
  json text = {{"model_type", "gemma4_text"},
               {"vocab_size", vocabulary_of(file_)},
               {"hidden_size", whole("embedding_length", 0)},
               {"intermediate_size", inner},
               {"num_hidden_layers", layers_},
               {"num_attention_heads", whole("attention.head_count", 0)},
               {"num_key_value_heads", of_layer("attention.head_count_kv", slides)},
               {"num_global_key_value_heads", of_layer("attention.head_count_kv", full)},
               {"head_dim", head_dim},
               {"global_head_dim", full_dim},
               {"attention_k_eq_v", !has_tensor(file_, full_layer + "attn_v.weight")},
               {"sliding_window", whole("attention.sliding_window", 512)},
               {"layer_types", std::move(types)},
               {"rms_norm_eps", file_.real("gemma4.attention.layer_norm_rms_epsilon", 1e-6)},
               {"max_position_embeddings", whole("context_length", 32768)},
               {"final_logit_softcapping", file_.real("gemma4.final_logit_softcapping", 0)},
               {"hidden_size_per_layer_input", whole("embedding_length_per_layer_input", 0)},
               {"vocab_size_per_layer_input", per_layer_rows},
               {"num_kv_shared_layers", whole("attention.shared_kv_layers", 0)},
               {"use_double_wide_mlp",
                of_layer("feed_forward_length", static_cast<std::size_t>(layers_ - 1)) == 2 * inner},
               {"tie_word_embeddings", tied},
               {"rope_parameters",
                {{"sliding_attention",
                  {{"rope_type", "default"}, {"rope_theta", file_.real("gemma4.rope.freq_base_swa", 1e4)}}},
                 {"full_attention",
                  {{"rope_type", "proportional"},
                   {"rope_theta", file_.real("gemma4.rope.freq_base", 1e6)},
                   {"partial_rotary_factor", proportion(full_dim)}}}}}};
  if (experts > 0) {
    text["enable_moe_block"] = true, text["num_experts"] = experts;
    text["top_k_experts"] = whole("expert_used_count", 0);
    text["moe_intermediate_size"] = whole("expert_feed_forward_length", 0);
  }
  return {{"model_type", "gemma4"},
          {"architectures", {"Gemma4ForConditionalGeneration"}},
          {"tie_word_embeddings", tied},
          {"text_config", std::move(text)}};
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_gemma4(const GgufFile& file, const std::string& path) {
  const std::int64_t layers = file.whole("gemma4.block_count", 0);
  const GgufValue* value = file.find("gemma4.attention.sliding_window_pattern");
  const auto* pattern = value == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(value);
  if (layers < 1 || layers > 1 << 16 || pattern == nullptr || std::ssize(*pattern) != layers) {
    return Error{Code::kCorrupt, path +
                                     ": its metadata lack layers or which of them slide (gemma4.block_count, "
                                     "attention.sliding_window_pattern); download the file again"};
  }
  std::vector<bool> sliding;
  for (const std::int64_t slides : *pattern) sliding.push_back(slides != 0);
  return std::unique_ptr<Architecture>(std::make_unique<Gemma4>(file, layers, std::move(sliding)));
}

}  // namespace ft::gguf
