#include <fmt/format.h>

#include "models/blocks/layers.h"
#include "models/blocks/moe.h"
#include "models/blocks/trunk.h"
#include "models/head_doctor.h"
#include "models/llama/config.h"
#include "models/llama/family.h"

namespace ft::llama {
namespace {

class Builder {
 public:
  Builder(Program& program, const Config& config, WeightSource& source)
      : p_(program), c_(config), source_(source), eps_(static_cast<float>(config.sizes.eps)) {}

  Row layer(Row x, int number) {
    const LayerConfig& layer = c_.layers[static_cast<std::size_t>(number)];
    const std::string prefix = fmt::format("layers.{}.", number);
    const Row in = blocks::norm(p_, source_, x, prefix + "input_layernorm", eps_);
    x = residual(x, blocks::attention(p_, source_, in, prefix + "self_attn.", attention(layer)));
    const Row after = blocks::norm(p_, source_, x, prefix + "post_attention_layernorm", eps_);
    if (layer.sparse) return residual(x, experts(after, fmt::format("layers.{}", number)));
    return residual(x, blocks::mlp(p_, source_, after, prefix + "mlp.", c_.sizes.intermediate,
                                   Activation::kSilu, c_.mlp_bias));
  }

 private:
  Row residual(Row x, Row y) {
    return p_.add(x, blocks::scale(p_, y, static_cast<float>(c_.residual_multiplier)));
  }

  Row experts(Row x, const std::string& layer) {
    const MoeConfig& moe = c_.moe;
    return blocks::moe(p_, source_, x, layer,
                       {moe.experts, moe.experts_per_token, moe.expert_size, 0, moe.norm_topk});
  }

  blocks::AttentionPart attention(const LayerConfig& layer) const {
    blocks::AttentionPart part;
    part.heads = c_.sizes.heads, part.kv_heads = c_.sizes.kv_heads, part.head_dim = c_.sizes.head_dim;
    part.hidden = c_.sizes.hidden;
    if (layer.rotates) part.rope = &c_.rope;
    part.eps = eps_, part.scale = static_cast<float>(c_.attention_scale);
    part.window = layer.window;
    part.qk_norm = c_.qk_norm, part.qkv_bias = c_.qkv_bias, part.o_bias = c_.o_bias;
    return part;
  }

  Program& p_;
  const Config& c_;
  WeightSource& source_;
  float eps_;
};

Status build(Model& model, const FamilyConfig& family_config, WeightSource& source,
             const LoadOptions& options) {
  const auto& config = static_cast<const Config&>(family_config);
  FT_TRY(blocks::read_ends(model, source, config.sizes.vocabulary, config.sizes.hidden));
  if (config.has_tower)
    model.vision_problem = "this model reads text only: this version does not run its vision tower";
  Builder builder(model.target, config, source);
  blocks::Trunk trunk;
  trunk.layers = config.sizes.layers, trunk.eps = static_cast<float>(config.sizes.eps);
  trunk.embedding_scale = static_cast<float>(config.embedding_multiplier);
  trunk.logit_scale = static_cast<float>(1 / config.logits_scaling);
  trunk.layer = [&](Row x, int number) { return builder.layer(x, number); };
  blocks::build_trunk(model, source, options.captures, trunk);
  FT_TRY(source.status());
  model.mtp_head = examine_head(model, {}, source);
  return {};
}

Result<std::unique_ptr<FamilyConfig>> read(const format::ConfigFiles& files, const std::string& model_type) {
  FT_ASSIGN(Config config, Config::read(files, model_type));
  return std::unique_ptr<FamilyConfig>(std::make_unique<Config>(std::move(config)));
}

// Hugging Face's and MLX's names are the same; the longer prefixes are of models with a vision tower.
constexpr std::string_view kOfLmHead[] = {"", "language_model.", "model.language_model.", "model."};
constexpr std::string_view kOfTarget[] = {"model.", "model.language_model.", "language_model.model.",
                                          "language_model.", ""};
constexpr format::NamePrefixes kPrefixes[] = {{"lm_head.", kOfLmHead}, {"", kOfTarget}};
constexpr std::string_view kBareNames[] = {".bias"};
constexpr std::string_view kChatFormats[] = {
    "llama3_json", "mistral with reasoning", "mistral", "mistral with a list of calls",
    "qwen3_5",     "granite with reasoning", "granite", "hermes",
    "plain"};

}  // namespace

const Family kFamily = {"llama", kModelTypes, kPrefixes, kBareNames,   read,
                        nullptr, build,       {},        kChatFormats, &kSynthetic};

}  // namespace ft::llama
