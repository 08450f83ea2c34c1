#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "models/blocks/layers.h"
#include "models/blocks/trunk.h"
#include "models/expert_weights.h"
#include "models/gemma4/config.h"
#include "models/gemma4/family.h"
#include "models/gemma4/names.h"
#include "models/head_doctor.h"
#include "models/weight_source.h"

namespace ft::gemma4 {

std::vector<float> inverse_frequencies(const RopeConfig& rope, int head_dim) {
  const int pairs = head_dim / 2;
  const int rotated = static_cast<int>(rope.proportion * head_dim / 2);
  std::vector<float> frequencies(static_cast<std::size_t>(pairs), 0.0F);
  for (int j = 0; j < rotated; ++j) {
    frequencies[static_cast<std::size_t>(j)] =
        static_cast<float>(std::pow(rope.theta, -2.0 * j / head_dim) / rope.factor);
  }
  return frequencies;
}

float stored_scalar(WeightSource& source, const std::string& name) {
  const Weight weight = source.vector(name, 1);
  const format::TensorView* tensor = weight.empty() ? nullptr : source.index().find(name);
  return tensor == nullptr ? 1.0F : format::load_float(tensor->bytes.data(), tensor->dtype, 0);
}

namespace {

/// One function per part of the specification: it reads the weights and appends the instructions.
class Builder {
 public:
  Builder(Program& program, const Config& config, WeightSource& source)
      : p_(program), config_(config), source_(source), eps_(static_cast<float>(config.rms_norm_eps)) {}

  /// The per-layer embeddings of all layers: by token and by the embedded row `x`.
  void embed_per_layer(Row x) {
    const int width = config_.per_layer_width * config_.num_layers;
    const Weight table = source_.matrix("embed_tokens_per_layer", config_.per_layer_vocabulary, width);
    const Weight projection = source_.matrix("per_layer_model_projection", width, config_.hidden_size);
    by_token_ = scale(p_.embed(table), config_.embedding_scale(config_.per_layer_width));
    const double factor = 1 / std::sqrt(static_cast<double>(config_.hidden_size));
    by_context_ = scale(p_.linear(x, {projection})[0], static_cast<float>(factor));
  }

  Row layer(Row x, int number) {
    const LayerConfig& layer = config_.layers[static_cast<std::size_t>(number)];
    const std::string prefix = fmt::format("layers.{}.", number);
    const Row attended = attention(norm(x, prefix + "input_layernorm"), prefix + "self_attn.", layer);
    x = p_.add(x, norm(attended, prefix + "post_attention_layernorm"));
    Row m = blocks::mlp(p_, source_, norm(x, prefix + "pre_feedforward_layernorm"), prefix + "mlp.",
                        layer.intermediate, Activation::kGeluTanh);
    if (config_.experts > 0) {
      m = p_.add(norm(m, prefix + "post_feedforward_layernorm_1"), experts(x, prefix));
    }
    x = p_.add(x, norm(m, prefix + "post_feedforward_layernorm"));
    if (config_.per_layer_width > 0) x = p_.add(x, per_layer(x, prefix, number));
    return scale(x, stored_scalar(source_, prefix + "layer_scalar"));
  }

  Row norm(Row x, const std::string& name) { return blocks::norm(p_, source_, x, name, eps_); }

 private:
  Row attention(Row x, const std::string& prefix, const LayerConfig& layer) {
    const int width = config_.num_heads * layer.head_dim;
    const int kv_width = layer.kv_heads * layer.head_dim;
    const int hidden = config_.hidden_size;
    std::vector<Weight> weights = {source_.matrix(prefix + "q_proj", width, hidden)};
    const bool shared = layer.cache_source >= 0;
    if (!shared) weights.push_back(source_.matrix(prefix + "k_proj", kv_width, hidden));
    if (!shared && !layer.k_is_v) weights.push_back(source_.matrix(prefix + "v_proj", kv_width, hidden));
    const Weight o = source_.matrix(prefix + "o_proj", hidden, width);
    const std::vector<Row> in = p_.linear(x, std::move(weights));

    Attention attend;
    attend.q = in[0];
    attend.q_norm = source_.norm(prefix + "q_norm", layer.head_dim);
    if (shared) {
      attend.shared = true;
      attend.cache = cache_of_[static_cast<std::size_t>(layer.cache_source)];
    } else {
      attend.k = in[1], attend.v = in.back();
      attend.k_norm = source_.norm(prefix + "k_norm", layer.head_dim);
      attend.v_norm = true;
    }
    attend.heads = config_.num_heads, attend.kv_heads = layer.kv_heads, attend.head_dim = layer.head_dim;
    attend.rotary = layer.head_dim;
    attend.inverse_frequencies =
        inverse_frequencies(layer.full ? config_.full_rope : config_.sliding_rope, layer.head_dim);
    attend.eps = eps_, attend.scale = 1;
    attend.sliding_window = layer.full ? 0 : config_.window;
    const Row out = p_.attend(std::move(attend));
    cache_of_.push_back(shared ? -1 : static_cast<int>(p_.layout().caches.size()) - 1);
    return p_.linear(out, {o})[0];
  }

  /// Next to the dense MLP: the router reads the stream itself, the experts their own norm of it.
  Row experts(Row x, const std::string& prefix) {
    const double factor = 1 / std::sqrt(static_cast<double>(config_.hidden_size));
    const Weight router = source_.matrix(prefix + "router.proj", config_.experts, config_.hidden_size);
    const Row scaled = scale(norm(x, prefix + "router.scale"), static_cast<float>(factor));
    MoeMlp routed;
    routed.routes = p_.append(TopKRouter{p_.linear(scaled, {router})[0],
                                         config_.experts_per_token,
                                         true,
                                         source_.vector(prefix + "router.per_expert_scale", config_.experts),
                                         {}});
    routed.in = norm(x, prefix + "pre_feedforward_layernorm_2");
    ExpertWeights weights = read_experts(source_, expert_names(prefix.substr(0, prefix.size() - 1)),
                                         {config_.experts, config_.hidden_size, config_.expert_size});
    routed.gate = std::move(weights.gate);
    routed.up = std::move(weights.up);
    routed.down = std::move(weights.down);
    routed.activation = Activation::kGeluTanh;
    return norm(p_.append(std::move(routed)), prefix + "post_feedforward_layernorm_2");
  }

  Row per_layer(Row x, const std::string& prefix, int number) {
    const int width = config_.per_layer_width;
    const Row context = norm(slice(by_context_, number * width, width), "per_layer_projection_norm");
    const Row input = scale(p_.add(context, slice(by_token_, number * width, width)), std::sqrt(0.5F));
    const Weight gate = source_.matrix(prefix + "per_layer_input_gate", width, config_.hidden_size);
    const Weight projection = source_.matrix(prefix + "per_layer_projection", config_.hidden_size, width);
    const Row gated = p_.geglu(p_.linear(x, {gate})[0], input);
    return norm(p_.linear(gated, {projection})[0], prefix + "post_per_layer_input_norm");
  }

  Row scale(Row x, float factor) { return blocks::scale(p_, x, factor); }
  Row slice(Row x, int first, int width) { return p_.append(Slice{x, first, width, {}}); }

  Program& p_;
  const Config& config_;
  WeightSource& source_;
  float eps_;
  Row by_token_, by_context_;  // [layers * per-layer width]
  std::vector<int> cache_of_;  // [layers so far]; -1: shared
};

Status build(Model& model, const FamilyConfig& family_config, WeightSource& source,
             const LoadOptions& options) {
  const auto& config = static_cast<const Config&>(family_config);
  FT_TRY(blocks::read_ends(model, source, config.vocab_size, config.hidden_size));
  Builder builder(model.target, config, source);
  blocks::Trunk trunk;
  trunk.layers = config.num_layers, trunk.eps = static_cast<float>(config.rms_norm_eps);
  trunk.embedding_scale = config.embedding_scale(config.hidden_size);
  trunk.softcap = static_cast<float>(config.logit_softcap);
  trunk.layer = [&](Row x, int number) {
    if (number == 0 && config.per_layer_width > 0) builder.embed_per_layer(x);
    return builder.layer(x, number);
  };
  blocks::build_trunk(model, source, options.captures, trunk);
  FT_TRY(source.status());
  model.mtp_head = examine_head(model, {}, source);
  return {};
}

Result<std::unique_ptr<FamilyConfig>> read(const format::ConfigFiles& files, const std::string& model_type) {
  FT_ASSIGN(Config config, Config::read(files, model_type));
  return std::unique_ptr<FamilyConfig>(std::make_unique<Config>(std::move(config)));
}

constexpr ConversionNames kConversion = {"language_model.", "switch_glu.", true, {}};
constexpr std::string_view kChatFormats[] = {"gemma4"};
constexpr std::string_view kModelTypes[] = {"gemma4", "gemma4_text"};

}  // namespace

// Norms multiply as they are stored, unlike in earlier Gemma models.
const Family kFamily = {"gemma4", kModelTypes, kPrefixes,   kBareNames,   read,
                        nullptr,  build,       kConversion, kChatFormats, &kSynthetic};

}  // namespace ft::gemma4
