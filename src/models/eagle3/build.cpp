// The network of an EAGLE-3 drafter as two programs.
//   features rows of the target in, one feature for each out: the output of `fc`
//   head      a token and a feature in; a draft, and the feature of the draft out
#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "models/blocks/layers.h"
#include "models/draft_vocabulary.h"
#include "models/eagle3/config.h"
#include "models/eagle3/format.h"
#include "models/weight_source.h"

namespace ft::eagle3 {
namespace {

class Builder {
 public:
  Builder(Program& program, const Config& config, WeightSource& source)
      : p_(program), c_(config), source_(source), eps_(static_cast<float>(config.eps)) {}

  void features() {
    const auto states = static_cast<int>(c_.captures.layers.size());
    const Weight fc = source_.matrix("fc", c_.hidden, states * c_.target_hidden);
    Row x = p_.input(states * c_.target_hidden);
    if (c_.norm_before_fc) x = norm(x, "input_norm");
    if (c_.fc_norm) {
      const Row all = x;
      for (int i = 0; i < states; ++i) {
        const Row one = norm(p_.append(Slice{all, i * c_.target_hidden, c_.target_hidden, {}}),
                             fmt::format("fc_norm.{}", i));
        x = i == 0 ? one : p_.concat(x, one);
      }
    }
    p_.capture("feature", p_.linear(x, {fc})[0]);
  }

  void head(const Weight& embedding, std::vector<std::int32_t> labels) {
    const Row feature = p_.input(c_.hidden);
    Row x = first_layer(p_.embed(embedding), feature);
    for (int i = 1; i < c_.layers; ++i) {
      const std::string prefix = fmt::format("layers.{}.", i);
      const Row in = norm(x, prefix + "input_layernorm");
      x = mlp(p_.add(x, attention(in, prefix)), prefix);
    }
    const Row last = norm(x, "norm");
    p_.capture("hidden", c_.norm_output ? last : x);
    Logits logits;
    logits.in = last;
    logits.lm_head = source_.matrix("lm_head", c_.draft_vocabulary, c_.hidden);
    logits.labels = std::move(labels);
    p_.logits(std::move(logits));
    p_.sample();
  }

 private:
  /// Its attention reads the embedding and the feature side by side, each normed.
  Row first_layer(Row embedded, Row feature) {
    const std::string prefix = source_.has("midlayer.hidden_norm") ? "midlayer." : "layers.0.";
    const Row e = norm(embedded, prefix + "input_layernorm");
    const Row n = norm(feature, prefix + "hidden_norm");
    const Row residual = c_.norm_before_residual ? n : feature;
    return mlp(p_.add(residual, attention(p_.concat(e, n), prefix)), prefix);
  }

  Row attention(Row x, const std::string& layer) {
    const std::string prefix = layer + "self_attn.";
    blocks::AttentionPart part;
    part.heads = c_.heads, part.kv_heads = c_.kv_heads, part.head_dim = c_.head_dim;
    part.hidden = c_.hidden, part.rope = &c_.rope, part.window = c_.window;
    part.eps = eps_, part.qk_norm = source_.has(prefix + "q_norm");
    return blocks::attention(p_, source_, x, prefix, part);
  }

  Row mlp(Row x, const std::string& layer) {
    const Row in = norm(x, layer + "post_attention_layernorm");
    return p_.add(x, blocks::mlp(p_, source_, in, layer + "mlp.", c_.intermediate));
  }

  Row norm(Row x, const std::string& name) { return blocks::norm(p_, source_, x, name, eps_); }

  Program& p_;
  const Config& c_;
  WeightSource& source_;
  float eps_;
};

/// The target's embedding, unless the drafter has a trained one or another width.
Result<Weight> embedding_of(const Config& config, WeightSource& source, const Model& target) {
  const bool shares = !config.own_embedding && target.embedding.cols == config.hidden;
  if (shares) return target.embedding;
  Weight own = source.matrix("embed_tokens", config.vocabulary, config.hidden);
  FT_TRY(source.status());
  return own;
}

Status build(DraftNetwork& network, const DraftConfig& draft_config, WeightSource& source,
             const Model& target) {
  const auto& config = static_cast<const Config&>(draft_config);
  FT_ASSIGN(std::vector<std::int32_t> labels,
            read_labels(source.index(), config.draft_vocabulary, config.vocabulary));
  FT_ASSIGN(const Weight embedding, embedding_of(config, source, target));
  network.programs.resize(2);
  Builder(network.programs[0], config, source).features();
  Builder(network.programs[1], config, source).head(embedding, std::move(labels));
  return source.status();
}

Result<std::unique_ptr<DraftConfig>> read(const format::ConfigFiles& files, const ModelFacts& target) {
  FT_ASSIGN(Config config, Config::read(files, target));
  return std::unique_ptr<DraftConfig>(std::make_unique<Config>(std::move(config)));
}

constexpr std::string_view kOwn[] = {"", "model."};
constexpr format::NamePrefixes kPrefixes[] = {{"", kOwn}};
constexpr std::string_view kBareNames[] = {"d2t", "t2d"};
constexpr Family kTensors = {"eagle3", {}, kPrefixes, kBareNames, nullptr, nullptr, nullptr};

}  // namespace

const DraftFormat kFormat = {"eagle3", &kTensors, read, build};

}  // namespace ft::eagle3
