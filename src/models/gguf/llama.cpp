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
    {"attn_norm.weight", "input_layernorm.weight"},    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},      {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},      {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"}, {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},          {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},          {"attn_output.bias", "self_attn.o_proj.bias"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},       {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},       {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias"},           {"ffn_up.bias", "mlp.up_proj.bias"},
    {"ffn_down.bias", "mlp.down_proj.bias"},
};
constexpr NameRow kLlamaOtherNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

struct Kind {
  std::string_view name;        // the architecture
  std::string_view model_type;  // of the original
  bool paired;                  // the rows of q and k
  bool experts = false;
};
constexpr Kind kKinds[] = {{"llama", "llama", true},
                           {"smollm3", "smollm3", true},
                           {"granite", "granite", true},
                           {"mistral3", "ministral3", true},
                           {"qwen2", "qwen2", false},
                           {"qwen3", "qwen3", false},
                           {"qwen3moe", "qwen3_moe", false, true}};

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

/// Llama 3.1's stretched rotation. A file holds the factors that divide the frequencies of the pairs and not
/// these parameters: 1 for short wavelengths, `factor` for long ones, a mixture between.
struct Stretch {
  double factor = 1, low = 1, high = 4;
  std::int64_t original = 8192;

  double at(double frequency) const {
    const double waves = static_cast<double>(original) * frequency / (2 * std::numbers::pi);
    if (waves > high) return 1;
    if (waves < low) return factor;
    const double smooth = (waves - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  }
};

class Llama final : public Architecture {
 public:
  Llama(const GgufFile& file, const Kind& kind, const LlamaSizes& sizes, std::optional<Stretch> stretch)
      : file_(file), kind_(kind), key_(std::string(kind.name) + "."), sizes_(sizes), stretch_(stretch) {
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
    const std::string prefix = "model.layers." + std::to_string(block->block) + ".";
    if (const std::string experts = experts_name(file_, *block); !experts.empty())
      return Place{prefix + experts};
    for (const NameRow& row : kLlamaLayerNames) {
      if (row.gguf != block->rest) continue;
      Place place{prefix + std::string(row.own)};
      if (!kind_.paired) return place;
      if (row.gguf.starts_with("attn_q.")) place.ordered = Ordered::kRows, place.order = q_order_;
      if (row.gguf.starts_with("attn_k.")) place.ordered = Ordered::kRows, place.order = k_order_;
      return place;
    }
    return std::nullopt;
  }

  std::vector<Piece> pieces(const GgufTensor& tensor) const override {
    const std::optional<BlockName> block = block_name(tensor.name);
    const std::int64_t q = sizes_.heads * sizes_.head_dim, kv = sizes_.kv_heads * sizes_.head_dim;
    if (block && block->rest == "attn_qkv.weight")
      return {{"attn_q.weight", q}, {"attn_k.weight", kv}, {"attn_v.weight", kv}};
    if (block && block->rest == "attn_qkv.bias")
      return {{"attn_q.bias", q}, {"attn_k.bias", kv}, {"attn_v.bias", kv}};
    return {};
  }

  json config() const override {
    json config = {{"model_type", std::string(kind_.model_type)},
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
                   {"attention_bias",
                    has_tensor(file_, "blk.0.attn_q.bias") || has_tensor(file_, "blk.0.attn_qkv.bias")},
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
    if (stretch_) {
      config["rope_scaling"] = {{"rope_type", "llama3"},
                                {"factor", stretch_->factor},
                                {"low_freq_factor", stretch_->low},
                                {"high_freq_factor", stretch_->high},
                                {"original_max_position_embeddings", stretch_->original}};
    } else if (type != "none") {
      config["rope_scaling"] = {{"rope_type", type}, {"factor", real("rope.scaling.factor", 1)}};
      if (type == "yarn") add_yarn(config["rope_scaling"]);
    }
  }

  void add_yarn(json& scaling) const {
    scaling["original_max_position_embeddings"] = whole("rope.scaling.original_context_length", 8192);
    scaling["beta_fast"] = real("rope.scaling.yarn_beta_fast", 32);
    scaling["beta_slow"] = real("rope.scaling.yarn_beta_slow", 1);
    if (const double all = real("rope.scaling.yarn_log_multiplier", 0); all > 0)
      scaling["mscale"] = 1, scaling["mscale_all_dim"] = all;
    if (const double beta = real("attention.temperature_scale", 0); beta > 0)
      scaling["llama_4_scaling_beta"] = beta;
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
  std::optional<Stretch> stretch_;
  std::shared_ptr<const std::vector<std::int64_t>> q_order_, k_order_;
};

/// Parameters that give these factors: published ones, else the line through the mixed pairs, along which
/// only low : high : original count.
std::optional<Stretch> fitted(const std::vector<float>& factors, const std::vector<double>& frequencies) {
  const auto fits = [&](const Stretch& stretch) {
    for (std::size_t j = 0; j < factors.size(); ++j) {
      const double expected = stretch.at(frequencies[j]);
      if (!(std::fabs(static_cast<double>(factors[j]) - expected) <= 1e-4 * expected)) return false;
    }
    return true;
  };
  Stretch stretch;
  stretch.factor = static_cast<double>(*std::ranges::max_element(factors));
  if (!(stretch.factor >= 1) || fits(stretch)) return fits(stretch) ? std::optional(stretch) : std::nullopt;
  std::vector<std::pair<double, double>> mixed;  // waves for each position of the original, smooth
  for (std::size_t j = 0; j < factors.size(); ++j) {
    const auto factor = static_cast<double>(factors[j]);
    if (factor > 1 && factor < stretch.factor)
      mixed.emplace_back(frequencies[j] / (2 * std::numbers::pi),
                         (1 / factor - 1 / stretch.factor) / (1 - 1 / stretch.factor));
  }
  if (mixed.empty()) {  // any length and high that divide the pairs as the factors do
    const auto first = static_cast<std::size_t>(
        std::ranges::find_if(factors, [](float factor) { return factor > 1; }) - factors.begin());
    stretch.original = static_cast<std::int64_t>(2 * std::numbers::pi / frequencies[first]);
    if (first > 0) {
      const double waves =
          static_cast<double>(stretch.original) * frequencies[first - 1] / (2 * std::numbers::pi);
      stretch.high = std::clamp(waves * 0.999, 1.0001, 4.0);
    }
    return fits(stretch) ? std::optional(stretch) : std::nullopt;
  }
  // smooth = (original * x - low) / (high - low), with low = 1
  double width = stretch.high - 1;
  const auto& [x0, y0] = mixed.front();
  const auto& [x1, y1] = mixed.back();
  double original = (y0 * width + 1) / x0;
  if (x1 < x0) {
    const double slope = (y0 - y1) / (x0 - x1);
    width = 1 / (slope * x0 - y0), original = slope * width;
  }
  stretch.high = 1 + width;
  if (!(original >= 1 && original < 1e12 && width > 0)) return std::nullopt;
  stretch.original = std::llround(original);
  // A rounded length moves the quotient of low and high; published configs have whole ones.
  if (const double whole = std::round(stretch.high); std::fabs(whole - stretch.high) < 1e-2)
    stretch.high = whole;
  return fits(stretch) ? std::optional(stretch) : std::nullopt;
}

Result<std::optional<Stretch>> read_stretch(const GgufFile& file, const std::string& key,
                                            std::int64_t head_dim, const std::string& path) {
  constexpr std::string_view kName = "rope_freqs.weight";
  for (const GgufTensor& tensor : file.tensors) {
    if (tensor.name != kName) continue;
    std::optional<Stretch> found;
    if (tensor.shape == std::vector<std::int64_t>{head_dim / 2}) {
      std::vector<float> factors(static_cast<std::size_t>(head_dim / 2));
      format::gguf_matrix(tensor.type, 1, head_dim / 2, tensor.bytes.data(), true)
          ->read(0, 1, factors.data());
      std::vector<double> frequencies;
      for (std::size_t j = 0; j < factors.size(); ++j)
        frequencies.push_back(std::pow(file.real(key + "rope.freq_base", 10000),
                                       -2.0 * static_cast<double>(j) / static_cast<double>(head_dim)));
      found = fitted(factors, frequencies);
    }
    if (found) return found;
    return format::tensor_error(Code::kUnsupported, path, tensor.name, "the factors of Llama 3.1's rotation",
                                "others", "use the original repository");
  }
  return std::optional<Stretch>();
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
  FT_ASSIGN(const std::optional<Stretch> stretch, read_stretch(file, key, sizes.head_dim, path));
  return std::unique_ptr<Architecture>(std::make_unique<Llama>(file, *kind, sizes, stretch));
}

}  // namespace ft::gguf
