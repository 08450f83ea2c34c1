// The network of a DFlash drafter as two programs over one cache.
//   context   rows of the target in, one for each committed token: fc, a norm, and the keys and values of
//             every layer. Its attention sees only one row; it exists to append them.
//   block     the pending token and mask tokens in, a draft for each mask out. Its keys and values are never
//             kept.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "models/blocks/rope.h"
#include "models/dflash/config.h"
#include "models/dflash/format.h"
#include "models/weight_source.h"

namespace ft::dflash {
namespace {

struct Layer {
  Weight input_norm, q, k, v, o, q_norm, k_norm, post_norm, gate, up, down;
};

class Builder {
 public:
  Builder(const Config& config, WeightSource& source) : c_(config), eps_(static_cast<float>(config.eps)) {
    const int q = c_.heads * c_.head_dim, kv = c_.kv_heads * c_.head_dim;
    const auto features = static_cast<int>(c_.captures.layers.size()) * c_.hidden;
    fc_ = source.matrix("fc", c_.hidden, features);
    hidden_norm_ = source.vector("hidden_norm", c_.hidden);
    norm_ = source.vector("norm", c_.hidden);
    for (int i = 0; i < c_.layers; ++i) {
      const std::string prefix = fmt::format("layers.{}.", i);
      const auto matrix = [&](const char* name, int rows, int cols) {
        return source.matrix(prefix + name, rows, cols);
      };
      const auto vector = [&](const char* name, int size) { return source.vector(prefix + name, size); };
      Layer layer;
      layer.input_norm = vector("input_layernorm", c_.hidden);
      layer.q = matrix("self_attn.q_proj", q, c_.hidden);
      layer.k = matrix("self_attn.k_proj", kv, c_.hidden);
      layer.v = matrix("self_attn.v_proj", kv, c_.hidden);
      layer.o = matrix("self_attn.o_proj", c_.hidden, q);
      layer.q_norm = vector("self_attn.q_norm", c_.head_dim);
      layer.k_norm = vector("self_attn.k_norm", c_.head_dim);
      layer.post_norm = vector("post_attention_layernorm", c_.hidden);
      layer.gate = matrix("mlp.gate_proj", c_.intermediate, c_.hidden);
      layer.up = matrix("mlp.up_proj", c_.intermediate, c_.hidden);
      layer.down = matrix("mlp.down_proj", c_.hidden, c_.intermediate);
      layers_.push_back(std::move(layer));
    }
  }

  void context(Program& p) const {
    const Row features = p.input(static_cast<int>(fc_.cols));
    const Row x = p.norm(p.linear(features, {fc_})[0], hidden_norm_, eps_);
    std::vector<Weight> weights;
    for (const Layer& layer : layers_) weights.insert(weights.end(), {layer.k, layer.v});
    const std::vector<Row> rows = p.linear(x, std::move(weights));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      Attention append = attention(i);
      append.q = append.k = rows[2 * i], append.v = rows[2 * i + 1];
      append.q_norm = append.k_norm;
      append.heads = c_.kv_heads;
      append.sliding_window = 1, append.causal = true;
      p.attend(std::move(append));
    }
  }

  void block(Program& p, const Model& target) const {
    Row x = p.embed(target.embedding);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const std::vector<Row> in = p.linear(p.norm(x, layer.input_norm, eps_), {layer.q, layer.k, layer.v});
      Attention attend = attention(i);
      attend.q = in[0], attend.k = in[1], attend.v = in[2];
      attend.q_norm = layer.q_norm;
      x = p.add(x, p.linear(p.attend(std::move(attend)), {layer.o})[0]);
      const std::vector<Row> mlp = p.linear(p.norm(x, layer.post_norm, eps_), {layer.gate, layer.up});
      x = p.add(x, p.linear(p.swiglu(mlp[0], mlp[1]), {layer.down})[0]);
    }
    Logits logits{p.norm(x, norm_, eps_), target.lm_head, {}};
    logits.softcap = static_cast<float>(c_.softcap);
    p.logits(std::move(logits));
    p.sample();
  }

 private:
  Attention attention(std::size_t layer) const {
    Attention attend;
    attend.k_norm = layers_[layer].k_norm;
    attend.heads = c_.heads, attend.kv_heads = c_.kv_heads, attend.head_dim = c_.head_dim;
    blocks::set_rope(attend, c_.rope);
    attend.eps = eps_;
    attend.scale = 1.0F / std::sqrt(static_cast<float>(c_.head_dim));
    attend.sliding_window = c_.windows[layer];
    attend.causal = c_.causal[layer] != 0;
    return attend;
  }

  const Config& c_;
  float eps_;
  Weight fc_, hidden_norm_, norm_;
  std::vector<Layer> layers_;
};

Status build(DraftNetwork& network, const DraftConfig& draft_config, WeightSource& source,
             const Model& target) {
  const auto& config = static_cast<const Config&>(draft_config);
  const Builder builder(config, source);
  FT_TRY(source.status());
  network.programs.resize(2);
  builder.context(network.programs[0]);
  builder.block(network.programs[1], target);
  network.most_drafts = config.block - 1;
  network.mask_token = config.mask_token;
  return {};
}

Result<std::unique_ptr<DraftConfig>> read(const format::ConfigFiles& files, const ModelFacts& target) {
  FT_ASSIGN(Config config, Config::read(files, target));
  return std::unique_ptr<DraftConfig>(std::make_unique<Config>(std::move(config)));
}

constexpr std::string_view kOwn[] = {"", "model.", "dflash."};
constexpr format::NamePrefixes kPrefixes[] = {{"", kOwn}};
constexpr Family kTensors = {"dflash", {}, kPrefixes, {}, nullptr, nullptr, nullptr};

}  // namespace

const DraftFormat kFormat = {"dflash", &kTensors, read, build};

}  // namespace ft::dflash
