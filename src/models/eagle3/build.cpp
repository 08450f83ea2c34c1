// The network of an EAGLE-3 drafter as two programs.
//   features rows of the target in, one feature for each out: the output of `fc`
//   head      a token and a feature in; a draft, and the feature of the draft out
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "models/eagle3/config.h"
#include "models/eagle3/format.h"
#include "models/eagle3/vocabulary.h"
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
    const int width = c_.heads * c_.head_dim, kv_width = c_.kv_heads * c_.head_dim;
    const std::vector<Row> in = p_.linear(x, {source_.matrix(prefix + "q_proj", width, x.width),
                                              source_.matrix(prefix + "k_proj", kv_width, x.width),
                                              source_.matrix(prefix + "v_proj", kv_width, x.width)});
    Attention attend;
    attend.q = in[0], attend.k = in[1], attend.v = in[2];
    if (source_.has(prefix + "q_norm")) {
      attend.q_norm = source_.vector(prefix + "q_norm", c_.head_dim);
      attend.k_norm = source_.vector(prefix + "k_norm", c_.head_dim);
    }
    attend.heads = c_.heads, attend.kv_heads = c_.kv_heads, attend.head_dim = c_.head_dim;
    attend.rotary = c_.rotary;
    for (int j = 0; j < c_.rotary / 2; ++j) {
      attend.inverse_frequencies.push_back(static_cast<float>(std::pow(c_.rope_theta, -2.0 * j / c_.rotary)));
    }
    attend.eps = eps_, attend.scale = 1.0F / std::sqrt(static_cast<float>(c_.head_dim));
    attend.sliding_window = c_.window;
    const Weight o = source_.matrix(prefix + "o_proj", c_.hidden, width);
    return p_.linear(p_.attend(std::move(attend)), {o})[0];
  }

  Row mlp(Row x, const std::string& layer) {
    const std::string prefix = layer + "mlp.";
    const Weight gate = source_.matrix(prefix + "gate_proj", c_.intermediate, c_.hidden);
    const Weight up = source_.matrix(prefix + "up_proj", c_.intermediate, c_.hidden);
    const Weight down = source_.matrix(prefix + "down_proj", c_.hidden, c_.intermediate);
    const std::vector<Row> in = p_.linear(norm(x, layer + "post_attention_layernorm"), {gate, up});
    return p_.add(x, p_.linear(p_.swiglu(in[0], in[1]), {down})[0]);
  }

  Row norm(Row x, const std::string& name) { return p_.norm(x, source_.vector(name, x.width), eps_); }

  Program& p_;
  const Config& c_;
  WeightSource& source_;
  float eps_;
};

/// The target's embedding, unless the drafter trained one of its own or has another width.
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
  FT_ASSIGN(std::vector<std::int32_t> labels, read_labels(source.index(), config));
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
