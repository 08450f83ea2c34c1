// The network of an assistant as a program over the state of its target. A row has the position of the last
// committed row, whose keys and values it sees with those before it; its queries turn by the coordinate that
// the drafter gives, which may be one further.
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "models/assistant/config.h"
#include "models/assistant/format.h"
#include "models/blocks/layers.h"
#include "models/gemma4/names.h"
#include "models/weight_source.h"

namespace ft::assistant {
namespace {

/// The last layer of each kind that appends keys and values; a later one reads them.
struct TargetLayers {
  const Attention* sliding = nullptr;
  const Attention* full = nullptr;
  float embedding_scale = 1;
};

TargetLayers layers_of(const Program& target) {
  TargetLayers found;
  int embedded = -1;
  for (const Instruction& instruction : target.instructions()) {
    if (const auto* embed = std::get_if<Embed>(&instruction); embed != nullptr && embedded < 0)
      embedded = embed->out.id;
    if (const auto* scale = std::get_if<Scale>(&instruction); scale != nullptr && scale->in.id == embedded)
      found.embedding_scale = scale->factor;
    const auto* attend = std::get_if<Attention>(&instruction);
    if (attend == nullptr || attend->shared) continue;
    (attend->sliding_window > 0 ? found.sliding : found.full) = attend;
  }
  return found;
}

/// kInvalid with the key that does not fit the target.
Status check_layers(const Config& config, const TargetLayers& target) {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::kInvalid,
                 fmt::format("{}: text_config.{}; use the assistant of this target", config.path, what)};
  };
  for (const gemma4::LayerConfig& layer : config.text.layers) {
    const Attention* of = layer.full ? target.full : target.sliding;
    const char* const kind = layer.full ? "full_attention" : "sliding_attention";
    if (of == nullptr) return wrong(fmt::format("layer_types has {}, which the target lacks", kind));
    if (layer.head_dim != of->head_dim)
      return wrong(
          fmt::format("heads of {} in {}, but the target's have {}", layer.head_dim, kind, of->head_dim));
    if (layer.kv_heads != of->kv_heads)
      return wrong(
          fmt::format("{} key-value heads in {}, but the target has {}", layer.kv_heads, kind, of->kv_heads));
    if (layer.full) continue;
    if (config.text.window > of->sliding_window || config.text.window < 2)
      return wrong(fmt::format("sliding_window is {}, expected 2 to the target's {}", config.text.window,
                               of->sliding_window));
  }
  return {};
}

class Builder {
 public:
  Builder(Program& program, const Config& config, WeightSource& source, const TargetLayers& target)
      : p_(program),
        c_(config),
        source_(source),
        target_(target),
        eps_(static_cast<float>(config.text.rms_norm_eps)) {}

  void network(const Weight& embedding) {
    const Row token = blocks::scale(p_, p_.embed(embedding), target_.embedding_scale);
    const Row before = p_.input(c_.backbone);
    Row x = p_.linear(p_.concat(token, before),
                      {source_.matrix("pre_projection", c_.text.hidden_size, 2 * c_.backbone)})[0];
    for (int i = 0; i < c_.text.num_layers; ++i) x = layer(x, i);
    const Row last = norm(x, "norm");
    p_.capture("hidden",
               p_.linear(last, {source_.matrix("post_projection", c_.backbone, c_.text.hidden_size)})[0]);
    logits(last);
    p_.sample();
  }

 private:
  Row norm(Row x, const std::string& name) { return blocks::norm(p_, source_, x, name, eps_); }

  Row layer(Row x, int number) {
    const gemma4::LayerConfig& layer = c_.text.layers[static_cast<std::size_t>(number)];
    const std::string prefix = fmt::format("layers.{}.", number);
    const Row attended = attention(norm(x, prefix + "input_layernorm"), prefix + "self_attn.", layer);
    x = p_.add(x, norm(attended, prefix + "post_attention_layernorm"));
    const Row m = blocks::mlp(p_, source_, norm(x, prefix + "pre_feedforward_layernorm"), prefix + "mlp.",
                              layer.intermediate, Activation::kGeluTanh);
    x = p_.add(x, norm(m, prefix + "post_feedforward_layernorm"));
    return blocks::scale(p_, x, gemma4::stored_scalar(source_, prefix + "layer_scalar"));
  }

  Row attention(Row x, const std::string& prefix, const gemma4::LayerConfig& layer) {
    const Attention& of = layer.full ? *target_.full : *target_.sliding;
    const int width = c_.text.num_heads * layer.head_dim;
    Attention attend;
    attend.q = p_.linear(x, {source_.matrix(prefix + "q_proj", width, c_.text.hidden_size)})[0];
    attend.q_norm = source_.norm(prefix + "q_norm", layer.head_dim);
    attend.shared = true, attend.cache = of.cache;
    attend.heads = c_.text.num_heads, attend.kv_heads = of.kv_heads, attend.head_dim = layer.head_dim;
    attend.rotary = layer.head_dim;
    attend.inverse_frequencies =
        gemma4::inverse_frequencies(layer.full ? c_.text.full_rope : c_.text.sliding_rope, layer.head_dim);
    attend.frequency_axes.assign(attend.inverse_frequencies.size(), c_.turns_by_last_row ? 1 : 0);
    attend.eps = eps_, attend.scale = 1;
    // A row after the last one sees one position less of the past: its window includes itself.
    attend.sliding_window = layer.full ? 0 : c_.text.window - 1;
    const Weight o = source_.matrix(prefix + "o_proj", c_.text.hidden_size, width);
    return p_.linear(p_.attend(std::move(attend)), {o})[0];
  }

  void logits(Row last) {
    const int hidden = c_.text.hidden_size, vocabulary = c_.text.vocab_size;
    const Weight table = source_.matrix("embed_tokens", vocabulary, hidden);
    if (c_.centroids == 0) {
      Logits logits{last, table, {}};
      logits.softcap = static_cast<float>(c_.text.logit_softcap);
      return p_.logits(std::move(logits));
    }
    const Row scores =
        p_.linear(last, {source_.matrix("masked_embedding.centroids", c_.centroids, hidden)})[0];
    TopKRouter router;
    router.scores = scores, router.chosen = c_.chosen;
    ClusterLogits logits;
    logits.in = last, logits.routes = p_.append(std::move(router));
    logits.table = table, logits.clusters = c_.centroids, logits.tokens = ordering();
    p_.logits(std::move(logits));
  }

  /// The tokens of the clusters, one cluster after the other: each token once.
  std::vector<std::int32_t> ordering() {
    const auto vocabulary = static_cast<std::size_t>(c_.text.vocab_size);
    std::vector<std::int32_t> tokens(vocabulary, 0);
    const format::TensorView* tensor = source_.index().find("masked_embedding.token_ordering");
    const auto wrong = [&](Code code, const std::string& what) {
      source_.fail({code, fmt::format("{}: masked_embedding.token_ordering {}; download the file again",
                                      source_.index().checkpoint().directory(), what)});
      return tokens;
    };
    if (tensor == nullptr) return wrong(Code::kNotFound, "is missing");
    if (tensor->dtype != format::DType::kI64 || tensor->bytes.size() != vocabulary * sizeof(std::int64_t))
      return wrong(Code::kCorrupt, fmt::format("is not {} whole numbers of 64 bits", vocabulary));
    std::vector<bool> seen(vocabulary, false);
    for (std::size_t i = 0; i < vocabulary; ++i) {
      std::int64_t token = 0;
      std::memcpy(&token, tensor->bytes.data() + i * sizeof(token), sizeof(token));
      if (token < 0 || token >= std::ssize(seen) || seen[static_cast<std::size_t>(token)])
        return wrong(Code::kCorrupt, fmt::format("lists {} twice, or outside the vocabulary", token));
      seen[static_cast<std::size_t>(token)] = true;
      tokens[i] = static_cast<std::int32_t>(token);
    }
    return tokens;
  }

  Program& p_;
  const Config& c_;
  WeightSource& source_;
  const TargetLayers& target_;
  float eps_;
};

Status build(DraftNetwork& network, const DraftConfig& draft_config, WeightSource& source,
             const Model& target) {
  const auto& config = static_cast<const Config&>(draft_config);
  const TargetLayers layers = layers_of(target.target);
  FT_TRY(check_layers(config, layers));
  network.programs.push_back(Program::over(target.target.layout()));
  Builder(network.programs.back(), config, source, layers).network(target.embedding);
  network.captured_width = config.backbone;
  network.design = config.centroids == 0 ? "logits of all tokens"
                                         : fmt::format("logits of {} of {} clusters of tokens", config.chosen,
                                                       config.centroids);
  return source.status();
}

Result<std::unique_ptr<DraftConfig>> read(const format::ConfigFiles& files, const ModelFacts& target) {
  FT_ASSIGN(Config config, Config::read(files, target));
  return std::unique_ptr<DraftConfig>(std::make_unique<Config>(std::move(config)));
}

constexpr std::string_view kOwn[] = {"model.", ""};
constexpr format::NamePrefixes kPrefixes[] = {{"", kOwn}};
constexpr std::string_view kBareNames[] = {"layer_scalar", "token_ordering"};
constexpr Family kTensors = {"assistant", {}, kPrefixes, kBareNames, nullptr, nullptr, nullptr};

}  // namespace

const DraftFormat kFormat = {"assistant", &kTensors, read, build};

}  // namespace ft::assistant
