#include <fmt/format.h>
#include <utility>

#include "models/blocks/layers.h"
#include "models/blocks/trunk.h"
#include "models/gpt_oss/config.h"
#include "models/gpt_oss/experts.h"
#include "models/gpt_oss/family.h"
#include "models/head_doctor.h"

namespace ft::gpt_oss {
namespace {

class Builder {
 public:
  Builder(Program& program, const Config& config, WeightSource& source)
      : p_(program), c_(config), source_(source), eps_(static_cast<float>(config.sizes.eps)) {}

  Row layer(Row x, int number) {
    const std::string layer = fmt::format("layers.{}", number);
    const Row in = blocks::norm(p_, source_, x, layer + ".input_layernorm", eps_);
    x = p_.add(x, blocks::attention(p_, source_, in, layer + ".self_attn.", attention(number)));
    const Row after = blocks::norm(p_, source_, x, layer + ".post_attention_layernorm", eps_);
    return p_.add(x, experts(after, layer));
  }

 private:
  blocks::AttentionPart attention(int number) const {
    blocks::AttentionPart part;
    part.heads = c_.sizes.heads, part.kv_heads = c_.sizes.kv_heads, part.head_dim = c_.sizes.head_dim;
    part.hidden = c_.sizes.hidden;
    part.rope = &c_.rope;
    part.eps = eps_;
    part.window = c_.windows[static_cast<std::size_t>(number)];
    part.qkv_bias = part.o_bias = c_.attention_bias;
    part.sinks = true;
    return part;
  }

  Row experts(Row x, const std::string& layer) {
    const Row products = p_.linear(x, {source_.matrix(layer + ".mlp.router", c_.experts, x.width)})[0];
    const Row scores = p_.bias(products, source_.vector(layer + ".mlp.router.bias", c_.experts));
    TopKRouter router;
    router.scores = scores, router.chosen = c_.experts_per_token;  // the softmax of the chosen scores
    Experts stored = read_experts(source_, layer, {c_.experts, x.width, c_.sizes.intermediate});
    MoeMlp mlp;
    mlp.in = x;
    mlp.routes = p_.append(std::move(router));
    mlp.gate = std::move(stored.gate), mlp.up = std::move(stored.up), mlp.down = std::move(stored.down);
    mlp.gate_bias = std::move(stored.gate_bias), mlp.up_bias = std::move(stored.up_bias);
    mlp.down_bias = std::move(stored.down_bias);
    mlp.activation = Activation::kClampedSwiglu;
    mlp.alpha = static_cast<float>(c_.swiglu_alpha), mlp.limit = static_cast<float>(c_.swiglu_limit);
    return p_.append(std::move(mlp));
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
  Builder builder(model.target, config, source);
  blocks::Trunk trunk;
  trunk.layers = config.sizes.layers, trunk.eps = static_cast<float>(config.sizes.eps);
  trunk.layer = [&](Row x, int number) { return builder.layer(x, number); };
  blocks::build_trunk(model, source, options.captures, trunk);
  FT_TRY(source.status());
  model.mtp_head = examine_head(model, {}, source);
  return {};
}

Result<std::unique_ptr<FamilyConfig>> read(const format::ConfigFiles& files, const std::string&) {
  FT_ASSIGN(Config config, Config::read(files));
  return std::unique_ptr<FamilyConfig>(std::make_unique<Config>(std::move(config)));
}

constexpr std::string_view kTypes[] = {"gpt_oss"};
constexpr std::string_view kOfLmHead[] = {"", "model."};
constexpr std::string_view kOfTarget[] = {"model.", ""};
constexpr format::NamePrefixes kPrefixes[] = {{"lm_head.", kOfLmHead}, {"", kOfTarget}};
constexpr std::string_view kBareNames[] = {".bias", ".sinks"};
constexpr ConversionNames kNames = {.experts = "experts.", .one_less = {}, .paired_experts = true};
constexpr std::string_view kChatFormats[] = {"harmony", "plain"};

}  // namespace

const Family kFamily = {"gpt_oss", kTypes, kPrefixes, kBareNames,   read,
                        nullptr,   build,  kNames,    kChatFormats, &kSynthetic};

}  // namespace ft::gpt_oss
