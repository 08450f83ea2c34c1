// Qwen3.5, its mixtures of experts and Qwen3-Next, as llama.cpp's conversion arranges them: norms stored as
// 1 + w, A as -exp(A_log), and value heads tiled over the key heads (head k * r + j of the original is head
// j * K + k). Qwen3-Next keeps the order of its value heads.
#include <nlohmann/json.hpp>

#include "models/gguf/architecture.h"

namespace ft::gguf {
namespace {

using format::GgufFile;
using format::GgufValue;
using nlohmann::json;

enum class Heads { kNone, kRows, kRowsAfterKeys, kColumns };

struct LayerName {
  std::string_view gguf, own;
  Heads heads = Heads::kNone;
};
constexpr LayerName kLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", Heads::kRowsAfterKeys},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight", Heads::kRows},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight", Heads::kRows},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight", Heads::kRows},
    {"ssm_ba.weight", "linear_attn.in_proj_ba.weight"},
    {"ssm_in.weight", "linear_attn.in_proj_qkvz.weight"},  // of older files
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight", Heads::kRowsAfterKeys},
    {"ssm_norm.weight", "linear_attn.norm.weight"},
    {"ssm_out.weight", "linear_attn.out_proj.weight", Heads::kColumns},
    {"ssm_a", "linear_attn.A_log", Heads::kRows},
    {"ssm_dt.bias", "linear_attn.dt_bias", Heads::kRows},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
};
constexpr NameRow kHeadNames[] = {
    {"nextn.eh_proj.weight", "mtp.fc.weight"},
    {"nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
    {"nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
    {"nextn.shared_head_norm.weight", "mtp.norm.weight"},
};
constexpr NameRow kOtherNames[] = {
    {"token_embd.weight", "model.language_model.embed_tokens.weight"},
    {"output_norm.weight", "model.language_model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

struct Sizes {
  std::int64_t layers = 0, key_heads = 1, value_heads = 1, key_size = 128, value_size = 128, conv = 4;
};

class Qwen35 final : public Architecture {
 public:
  Qwen35(const GgufFile& file, std::string name, const Sizes& sizes)
      : file_(file), name_(std::move(name)), key_(name_ + "."), next_(name_ == "qwen3next"), sizes_(sizes) {
    const std::int64_t each = sizes.value_heads / sizes.key_heads;
    auto order = std::make_shared<std::vector<std::int64_t>>();
    for (std::int64_t h = 0; h < sizes.value_heads; ++h)
      order->push_back(h % each * sizes.key_heads + h / each);
    order_ = std::move(order);
  }

  json config() const override;

  std::optional<Place> place(const format::GgufTensor& tensor) const override {
    for (const NameRow& row : kOtherNames) {
      if (row.gguf == tensor.name) return Place{std::string(row.own)};
    }
    const std::optional<BlockName> block = block_name(tensor.name);
    if (!block) return std::nullopt;
    const bool head = block->block >= sizes_.layers;
    for (const NameRow& row : kHeadNames) {
      if (head && row.gguf == block->rest) return Place{std::string(row.own)};
    }
    const std::string prefix = head ? "mtp.layers." + std::to_string(block->block - sizes_.layers) + "."
                                    : "model.language_model.layers." + std::to_string(block->block) + ".";
    if (const std::string experts = experts_name(file_, *block); !experts.empty())
      return Place{prefix + experts};
    for (const LayerName& row : kLayerNames) {
      if (row.gguf == block->rest) return arranged(prefix, row);
    }
    return std::nullopt;
  }

  std::vector<std::int64_t> shape(const Place& place, std::vector<std::int64_t> stored) const override {
    if (place.name.ends_with("conv1d.weight") && stored.size() == 2) stored.insert(stored.end() - 1, 1);
    if (place.name.ends_with("shared_expert_gate.weight") && stored.size() == 1)
      stored.insert(stored.begin(), 1);
    return stored;
  }

 private:
  Place arranged(const std::string& prefix, const LayerName& row) const {
    Place place{prefix + std::string(row.own)};
    place.decay = row.own.ends_with("A_log");
    place.in_memory = row.own.ends_with("conv1d.weight");
    if (next_ || row.heads == Heads::kNone || sizes_.value_heads == sizes_.key_heads) return place;
    place.ordered = row.heads == Heads::kColumns ? Ordered::kColumns : Ordered::kRows;
    place.first = row.heads == Heads::kRowsAfterKeys ? 2 * sizes_.key_heads * sizes_.key_size : 0;
    place.order = order_;
    return place;
  }

  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return file_.whole(key_ + name, otherwise);
  }
  json rope(std::int64_t head_size) const;

  const GgufFile& file_;
  std::string name_, key_;
  bool next_;
  Sizes sizes_;
  std::shared_ptr<const std::vector<std::int64_t>> order_;
};

json Qwen35::rope(std::int64_t head_size) const {
  json rope = {{"rope_type", "default"}, {"rope_theta", file_.real(key_ + "rope.freq_base", 1e7)}};
  rope["partial_rotary_factor"] =
      static_cast<double>(whole("rope.dimension_count", head_size / 4)) / static_cast<double>(head_size);
  const GgufValue* sections = file_.find(key_ + "rope.dimension_sections");
  if (const auto* list = sections == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(sections);
      list != nullptr && list->size() >= 3) {
    rope["mrope_section"] = {(*list)[0], (*list)[1], (*list)[2]};
    rope["mrope_interleaved"] = true;
  }
  return rope;
}

json Qwen35::config() const {
  const std::int64_t head_size = whole("attention.key_length", 256);
  const bool moe = next_ || name_ == "qwen35moe";
  const bool tied = !has_tensor(file_, "output.weight");
  json text = {{"model_type", moe ? "qwen3_5_moe_text" : "qwen3_5_text"},
               {"vocab_size", vocabulary_of(file_)},
               {"hidden_size", whole("embedding_length", 0)},
               {"intermediate_size", whole("feed_forward_length", 0)},
               {"num_hidden_layers", sizes_.layers},
               {"num_attention_heads", whole("attention.head_count", 0)},
               {"num_key_value_heads", whole("attention.head_count_kv", 0)},
               {"head_dim", head_size},
               {"rms_norm_eps", file_.real(key_ + "attention.layer_norm_rms_epsilon", 1e-6)},
               {"max_position_embeddings", whole("context_length", 32768)},
               {"full_attention_interval", whole("full_attention_interval", 4)},
               {"attn_output_gate", true},
               {"linear_conv_kernel_dim", sizes_.conv},
               {"linear_key_head_dim", sizes_.key_size},
               {"linear_value_head_dim", sizes_.value_size},
               {"linear_num_key_heads", sizes_.key_heads},
               {"linear_num_value_heads", sizes_.value_heads},
               {"mtp_num_hidden_layers", whole("nextn_predict_layers", 0)},
               {"tie_word_embeddings", tied},
               {"rope_parameters", rope(head_size)}};
  if (moe) {
    text["num_experts"] = whole("expert_count", 0);
    text["num_experts_per_tok"] = whole("expert_used_count", 0);
    text["moe_intermediate_size"] = whole("expert_feed_forward_length", 0);
    text["shared_expert_intermediate_size"] = whole("expert_shared_feed_forward_length", 0);
  }
  if (next_) {
    text["model_type"] = "qwen3_next", text["architectures"] = {"Qwen3NextForCausalLM"};
    text["mtplx_mtp_norm_encoding"] = "final";
    return text;
  }
  return {{"model_type", moe ? "qwen3_5_moe" : "qwen3_5"},
          {"architectures", {moe ? "Qwen3_5MoeForConditionalGeneration" : "Qwen3_5ForConditionalGeneration"}},
          {"tie_word_embeddings", tied},
          {"mtplx_mtp_norm_encoding", "final"},
          {"text_config", std::move(text)}};
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_qwen35(const GgufFile& file, const std::string& path) {
  const std::string name = file.text("general.architecture", "");
  const std::string key = name + ".";
  Sizes sizes;
  sizes.layers = file.whole(key + "block_count", 0) - file.whole(key + "nextn_predict_layers", 0);
  sizes.key_heads = file.whole(key + "ssm.group_count", 0);
  sizes.value_heads = file.whole(key + "ssm.time_step_rank", 0);
  sizes.key_size = file.whole(key + "ssm.state_size", 0);
  sizes.conv = file.whole(key + "ssm.conv_kernel", 4);
  const std::int64_t inner = file.whole(key + "ssm.inner_size", 0);
  const auto good = [](std::int64_t value) { return value >= 1 && value <= 1 << 20; };
  if (!good(sizes.layers) || !good(sizes.key_heads) || !good(sizes.value_heads) || !good(sizes.key_size) ||
      !good(inner) || sizes.value_heads % sizes.key_heads != 0 || inner % sizes.value_heads != 0) {
    return Error{Code::kCorrupt, path + ": its metadata lacks layers and sizes of the gated delta rule (" +
                                     key + "block_count, ssm.*); download the file again"};
  }
  sizes.value_size = inner / sizes.value_heads;
  return std::unique_ptr<Architecture>(std::make_unique<Qwen35>(file, name, sizes));
}

}  // namespace ft::gguf
