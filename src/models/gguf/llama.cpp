// Llama and its relatives. Llama itself, SmolLM2 and Mistral are one architecture. Where a converter of
// llama.cpp derives from Llama's, the rows of q and k are in pairs of neighbours: row 2 j + s of a head
// (s = 0, 1) is row s D/2 + j of the original. Source: llama.cpp, conversion/*.py.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/assert.h"
#include "format/gguf/blocks.h"
#include "format/tensor.h"
#include "models/gguf/architecture.h"

namespace ft::gguf {
namespace {

using format::GgufFile;
using format::GgufTensor;
using nlohmann::json;

constexpr NameRow kLlamaLayerNames[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.switch_mlp.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.switch_mlp.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.switch_mlp.down_proj.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias"},
    {"ffn_up.bias", "mlp.up_proj.bias"},
    {"ffn_down.bias", "mlp.down_proj.bias"},
};
constexpr NameRow kLlamaOtherNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

/// An architecture, which is also the model type of the original.
struct Kind {
  std::string_view name;
  bool paired;  // the rows of q and k
  bool experts = false;
};
constexpr Kind kKinds[] = {{"llama", true},  {"smollm3", true}, {"granite", true},
                           {"qwen2", false}, {"qwen3", false},  {"qwen3moe", false, true}};

struct LlamaSizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
};

/// Stored row of each row of the original.
std::shared_ptr<const std::vector<std::int64_t>> row_order(std::int64_t heads, std::int64_t head_dim) {
  auto order = std::make_shared<std::vector<std::int64_t>>();
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t r = 0; r < head_dim; ++r)
      order->push_back(h * head_dim + 2 * (r % (head_dim / 2)) + r / (head_dim / 2));
  }
  return order;
}

/// The factors that divide the frequencies of the pairs, as Llama 3.1 scales them: 1 for short wavelengths,
/// `factor` for long ones.
constexpr double kLowFactor = 1, kHighFactor = 4, kOriginalContext = 8192;

double llama3_factor(double frequency, double factor) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < kOriginalContext / kHighFactor) return 1;
  if (wavelength > kOriginalContext / kLowFactor) return factor;
  const double smooth = (kOriginalContext / wavelength - kLowFactor) / (kHighFactor - kLowFactor);
  return 1 / ((1 - smooth) / factor + smooth);
}

class Llama final : public Architecture {
 public:
  Llama(const GgufFile& file, const Kind& kind, const LlamaSizes& sizes, std::optional<double> rope_factor)
      : file_(file),
        kind_(kind),
        key_(std::string(kind.name) + "."),
        sizes_(sizes),
        rope_factor_(rope_factor) {
    if (!kind.paired) return;
    q_order_ = row_order(sizes.heads, sizes.head_dim);
    k_order_ = row_order(sizes.kv_heads, sizes.head_dim);
  }

  std::optional<Place> place(const GgufTensor& tensor) const override {
    for (const NameRow& row : kLlamaOtherNames) {
      if (row.gguf == tensor.name) return Place{std::string(row.own)};
    }
    const std::optional<BlockName> block = block_name(tensor.name);
    if (!block || block->block >= sizes_.layers) return std::nullopt;
    for (const NameRow& row : kLlamaLayerNames) {
      if (row.gguf != block->rest) continue;
      Place place{"model.layers." + std::to_string(block->block) + "." + std::string(row.own)};
      if (!kind_.paired) return place;
      if (row.gguf.starts_with("attn_q.")) place.ordered = Ordered::kRows, place.order = q_order_;
      if (row.gguf.starts_with("attn_k.")) place.ordered = Ordered::kRows, place.order = k_order_;
      return place;
    }
    return std::nullopt;
  }

  json config() const override {
    json config = {{"model_type", kind_.experts ? "qwen3_moe" : std::string(kind_.name)},
                   {"architectures", {"LlamaForCausalLM"}},
                   {"vocab_size", vocabulary_of(file_)},
                   {"hidden_size", sizes_.hidden},
                   {"intermediate_size", whole("feed_forward_length", 0)},
                   {"num_hidden_layers", sizes_.layers},
                   {"num_attention_heads", sizes_.heads},
                   {"num_key_value_heads", sizes_.kv_heads},
                   {"head_dim", sizes_.head_dim},
                   {"hidden_act", "silu"},
                   {"rms_norm_eps", real("attention.layer_norm_rms_epsilon", 1e-5)},
                   {"max_position_embeddings", whole("context_length", 2048)},
                   {"rope_theta", real("rope.freq_base", 10000)},
                   {"attention_bias", has_tensor(file_, "blk.0.attn_q.bias")},
                   {"mlp_bias", has_tensor(file_, "blk.0.ffn_gate.bias")},
                   {"tie_word_embeddings", !has_tensor(file_, "output.weight")}};
    add_rope_scaling(config);
    if (kind_.name == "granite") add_multipliers(config);
    if (kind_.experts) {
      config["num_experts"] = whole("expert_count", 0);
      config["num_experts_per_tok"] = whole("expert_used_count", 0);
      config["moe_intermediate_size"] = whole("expert_feed_forward_length", 0);
      config["norm_topk_prob"] = true;  // as llama.cpp computes it; the file has no key for it
    }
    return config;
  }

 private:
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return file_.whole(key_ + name, otherwise);
  }
  double real(const char* name, double otherwise) const { return file_.real(key_ + name, otherwise); }

  void add_rope_scaling(json& config) const {
    const std::string type = file_.text(key_ + "rope.scaling.type", "none");
    if (rope_factor_) {
      config["rope_scaling"] = {{"rope_type", "llama3"},
                                {"factor", *rope_factor_},
                                {"low_freq_factor", kLowFactor},
                                {"high_freq_factor", kHighFactor},
                                {"original_max_position_embeddings", static_cast<int>(kOriginalContext)}};
    } else if (type != "none") {
      config["rope_scaling"] = {{"rope_type", type}, {"factor", real("rope.scaling.factor", 1)}};
      if (type == "yarn")
        config["rope_scaling"]["original_max_position_embeddings"] =
            whole("rope.scaling.original_context_length", 8192);
    }
  }

  void add_multipliers(json& config) const {
    config["embedding_multiplier"] = real("embedding_scale", 1);
    config["residual_multiplier"] = real("residual_scale", 1);
    config["logits_scaling"] = real("logit_scale", 1);
    config["attention_multiplier"] =
        real("attention.scale", 1 / std::sqrt(static_cast<double>(sizes_.head_dim)));
  }

  const GgufFile& file_;
  const Kind& kind_;
  std::string key_;
  LlamaSizes sizes_;
  std::optional<double> rope_factor_;
  std::shared_ptr<const std::vector<std::int64_t>> q_order_, k_order_;
};

/// A file has the factors of Llama 3.1's rotation as a tensor and not their parameters. The factor is the
/// largest of them; with it all others must follow.
Result<std::optional<double>> read_rope_factors(const GgufFile& file, const std::string& key,
                                                std::int64_t head_dim, const std::string& path) {
  constexpr std::string_view kName = "rope_freqs.weight";
  for (const GgufTensor& tensor : file.tensors) {
    if (tensor.name != kName) continue;
    std::vector<float> factors(static_cast<std::size_t>(head_dim / 2));
    const bool fits = tensor.shape == std::vector<std::int64_t>{head_dim / 2};
    if (fits)
      format::gguf_matrix(tensor.type, 1, head_dim / 2, tensor.bytes.data(), true)
          ->read(0, 1, factors.data());
    const auto factor = static_cast<double>(fits ? factors.back() : 0);
    bool known = factor >= 1;
    for (std::size_t j = 0; known && j < factors.size(); ++j) {
      const double frequency = std::pow(file.real(key + "rope.freq_base", 10000),
                                        -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
      const double expected = llama3_factor(frequency, factor);
      known = std::fabs(static_cast<double>(factors[j]) - expected) <= 1e-4 * expected;
    }
    if (known) return std::optional<double>(factor);
    return format::tensor_error(Code::kUnsupported, path, tensor.name, "the factors of Llama 3.1's rotation",
                                "others", "use the original repository");
  }
  return std::optional<double>();
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_llama(const GgufFile& file, const std::string& path) {
  const auto* kind = std::ranges::find(kKinds, file.text("general.architecture", ""), &Kind::name);
  FT_ASSERT(kind != std::end(kKinds));  // architecture.cpp lists them
  const std::string key = std::string(kind->name) + ".";
  LlamaSizes sizes;
  sizes.layers = file.whole(key + "block_count", 0), sizes.hidden = file.whole(key + "embedding_length", 0);
  sizes.heads = file.whole(key + "attention.head_count", 0);
  sizes.kv_heads = file.whole(key + "attention.head_count_kv", sizes.heads);
  const auto good = [](std::int64_t value) { return value >= 1 && value <= 1 << 20; };
  const bool counted = good(sizes.layers) && good(sizes.hidden) && good(sizes.heads) && good(sizes.kv_heads);
  if (counted) sizes.head_dim = file.whole(key + "attention.key_length", sizes.hidden / sizes.heads);
  if (!counted || !good(sizes.head_dim) || sizes.head_dim % 2 != 0 ||
      sizes.heads * sizes.head_dim > 1 << 24 || sizes.kv_heads * sizes.head_dim > 1 << 24) {
    return Error{Code::kCorrupt, path + ": its metadata lack layers, width or heads (" + key +
                                     "block_count, embedding_length, attention.head_count); download the "
                                     "file again"};
  }
  if (!kind->experts && file.whole(key + "expert_count", 0) > 0) {
    return Error{Code::kUnsupported, path + ": is a mixture of experts (" + key +
                                         "expert_count); use a model of a supported family"};
  }
  if (file.whole(key + "rope.dimension_count", sizes.head_dim) != sizes.head_dim) {
    return Error{Code::kUnsupported, path + ": " + key + "rope.dimension_count: expected the head's " +
                                         std::to_string(sizes.head_dim) + "; use the original repository"};
  }
  FT_ASSIGN(const std::optional<double> factor, read_rope_factors(file, key, sizes.head_dim, path));
  return std::unique_ptr<Architecture>(std::make_unique<Llama>(file, *kind, sizes, factor));
}

}  // namespace ft::gguf
