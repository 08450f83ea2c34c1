#include <fmt/format.h>
#include <utility>
#include <vector>

#include "models/blocks/layers.h"
#include "models/blocks/moe.h"
#include "models/blocks/mtp.h"
#include "models/blocks/trunk.h"
#include "models/glm4_moe/config.h"
#include "models/glm4_moe/family.h"
#include "models/head_doctor.h"

namespace ft::glm4_moe {
namespace {

using HeadKind = HeadTensor::Kind;

class Builder {
 public:
  Builder(Program& program, const Config& config, WeightSource& source)
      : p_(program), c_(config), source_(source), eps_(static_cast<float>(config.sizes.eps)) {}

  /// `name` is without a dot at its end.
  Row layer(Row x, const std::string& name, bool sparse) {
    const Row in = blocks::norm(p_, source_, x, name + ".input_layernorm", eps_);
    x = p_.add(x, blocks::attention(p_, source_, in, name + ".self_attn.", attention()));
    const Row after = blocks::norm(p_, source_, x, name + ".post_attention_layernorm", eps_);
    return p_.add(x, sparse ? blocks::moe(p_, source_, after, name, experts())
                            : blocks::mlp(p_, source_, after, name + ".mlp.", c_.sizes.intermediate));
  }

 private:
  blocks::AttentionPart attention() const {
    blocks::AttentionPart part;
    part.heads = c_.sizes.heads, part.kv_heads = c_.sizes.kv_heads, part.head_dim = c_.sizes.head_dim;
    part.hidden = c_.sizes.hidden;
    part.rope = &c_.rope, part.eps = eps_;
    part.qk_norm = c_.qk_norm, part.qkv_bias = c_.qkv_bias;
    return part;
  }

  blocks::MoePart experts() const {
    const MoeConfig& moe = c_.moe;
    blocks::MoePart part = {moe.experts, moe.experts_per_token, moe.expert_size, moe.shared_size,
                            moe.norm_topk};
    part.shared = "shared_experts", part.shared_gate = false;
    part.score = RouterScore::kSigmoid, part.selection_bias = true;
    part.factor = static_cast<float>(moe.factor);
    return part;
  }

  Program& p_;
  const Config& c_;
  WeightSource& source_;
  float eps_;
};

/// The tensors of the head's decoder layer, after "mtp.layers.0.".
std::vector<HeadTensor> layer_tensors(const Config& c, ExpertLayout layout) {
  const blocks::Sizes& s = c.sizes;
  const std::int64_t q = std::int64_t{s.heads} * s.head_dim, kv = std::int64_t{s.kv_heads} * s.head_dim;
  const std::string prefix = "mtp.layers.0.", attention = prefix + "self_attn.";
  std::vector<HeadTensor> list = {{prefix + "input_layernorm", HeadKind::kNorm, 1, s.hidden},
                                  {attention + "q_proj", HeadKind::kMatrix, q, s.hidden},
                                  {attention + "k_proj", HeadKind::kMatrix, kv, s.hidden},
                                  {attention + "v_proj", HeadKind::kMatrix, kv, s.hidden},
                                  {attention + "o_proj", HeadKind::kMatrix, s.hidden, q},
                                  {prefix + "post_attention_layernorm", HeadKind::kNorm, 1, s.hidden},
                                  {prefix + "mlp.gate", HeadKind::kMatrix, c.moe.experts, s.hidden}};
  if (c.moe.shared_size > 0) {
    const std::string shared = prefix + "mlp.shared_experts.";
    list.push_back({shared + "gate_proj", HeadKind::kMatrix, c.moe.shared_size, s.hidden});
    list.push_back({shared + "up_proj", HeadKind::kMatrix, c.moe.shared_size, s.hidden});
    list.push_back({shared + "down_proj", HeadKind::kMatrix, s.hidden, c.moe.shared_size});
  }
  for (HeadTensor& tensor : expert_tensors(layout, blocks::expert_names("mtp.layers.0"),
                                           {c.moe.experts, s.hidden, c.moe.expert_size}))
    list.push_back(std::move(tensor));
  return list;
}

HeadReport examine(const Model& model, const Config& config, WeightSource& source) {
  const int hidden = config.sizes.hidden;
  std::vector<HeadTensor> tensors =
      layer_tensors(config, expert_layout(source, blocks::expert_names("mtp.layers.0")));
  tensors.push_back({"mtp.fc", HeadKind::kMatrix, hidden, 2 * std::int64_t{hidden}});
  for (const char* name : {"mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"})
    tensors.push_back({name, HeadKind::kNorm, 1, hidden});
  const auto as_stored = []() -> Result<std::string> { return std::string(); };
  return examine_head(model, {config.mtp_layers, tensors, as_stored, config.mtp_by_tensors}, source);
}

Status build(Model& model, const FamilyConfig& family_config, WeightSource& source,
             const LoadOptions& options) {
  const auto& config = static_cast<const Config&>(family_config);
  FT_TRY(blocks::read_ends(model, source, config.sizes.vocabulary, config.sizes.hidden));
  Builder builder(model.target, config, source);
  blocks::Trunk trunk;
  trunk.layers = config.sizes.layers, trunk.eps = static_cast<float>(config.sizes.eps);
  trunk.layer = [&](Row x, int i) {
    return builder.layer(x, fmt::format("layers.{}", i), i >= config.dense_layers);
  };
  blocks::build_trunk(model, source, options.captures, trunk);
  FT_TRY(source.status());
  model.mtp_head = examine(model, config, source);
  if (!model.mtp_head.usable()) return {};
  blocks::MtpHead head;
  head.eps = trunk.eps;
  head.layers = [&](Program& p, Row x) { return Builder(p, config, source).layer(x, "mtp.layers.0", true); };
  blocks::build_mtp_head(model, source, options, head);
  return {};
}

Result<std::unique_ptr<FamilyConfig>> read(const format::ConfigFiles& files, const std::string& /*type*/) {
  FT_ASSIGN(Config config, Config::read(files));
  return std::unique_ptr<FamilyConfig>(std::make_unique<Config>(std::move(config)));
}

// Hugging Face's and MLX's names are the same.
constexpr std::string_view kOfMtp[] = {"", "model."};
constexpr std::string_view kOfLmHead[] = {"", "model."};
constexpr std::string_view kOfTarget[] = {"model.", ""};
constexpr format::NamePrefixes kPrefixes[] = {{"mtp.", kOfMtp}, {"lm_head.", kOfLmHead}, {"", kOfTarget}};
constexpr std::string_view kBareNames[] = {".bias", ".e_score_correction_bias"};
constexpr ConversionNames kConversion = {"", "switch_mlp.", false, {}, true};
constexpr std::string_view kChatFormats[] = {"glm4_moe", "hermes", "plain"};
constexpr std::string_view kModelTypes[] = {"glm4_moe"};

}  // namespace

const Family kFamily = {"glm4_moe", kModelTypes, kPrefixes,    kBareNames,  read, nullptr,
                        build,      kConversion, kChatFormats, &kSynthetic, true};

}  // namespace ft::glm4_moe
