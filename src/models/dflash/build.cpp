// The network of a block drafter as two programs over one cache.
//   context   rows of the target in, one for each committed token: fc, a norm, and the keys and values of
//             every layer. Its attention sees only one row; it exists to append them.
//   block     the pending token and mask tokens in, a draft for each mask out (DSpark: for each row). Its
//             keys and values are never kept. DFlash2 convolves the input and the output of each sublayer,
//             with coefficients from the row that enters the first of the two.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "models/blocks/rope.h"
#include "models/dflash/config.h"
#include "models/dflash/format.h"
#include "models/draft_vocabulary.h"
#include "models/weight_source.h"

namespace ft::dflash {
namespace {

/// Two convolutions around a sublayer.
struct Convolutions {
  Weight base, projection;
};

struct Layer {
  Weight input_norm, q, k, v, o, q_norm, k_norm, post_norm, gate, up, down;
  Convolutions attention, mlp;  // of DFlash2
};

/// Refuses a file with tensors of another design than the config's: it would draft badly without them.
Status check_design(const Config& config, WeightSource& source) {
  struct Mark {
    const char* tensor;
    Design design;
  };
  static constexpr Mark kMarks[] = {{"layers.0.attention_conv.kernel_projection", Design::kDflash2},
                                    {"layers.0.mlp_conv.kernel_projection", Design::kDflash2},
                                    {"candidate_selector.hidden_projection", Design::kDflash2},
                                    {"markov_head.markov_w1", Design::kDspark},
                                    {"markov_w1", Design::kDspark}};
  for (const Mark& mark : kMarks) {
    if (!source.has(mark.tensor) || mark.design == config.design) continue;
    return Error{
        Code::kCorrupt,
        fmt::format("{}: the tensor {} is one of {}, but its config says {}; use the config.json that was "
                    "published with it",
                    config.path, mark.tensor, design_name(mark.design), design_name(config.design))};
  }
  return {};
}

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
      if (c_.taps > 0) {
        layer.attention = convolutions(source, prefix + "attention_conv.");
        layer.mlp = convolutions(source, prefix + "mlp_conv.");
      }
      layers_.push_back(std::move(layer));
    }
    if (c_.draft_vocabulary < c_.vocabulary)
      lm_head_ = source.matrix("lm_head", c_.draft_vocabulary, c_.hidden);
    if (c_.design != Design::kDflash2 && source.has("embed_tokens"))
      embedding_ = source.matrix("embed_tokens", c_.vocabulary, c_.hidden);
    if (c_.design == Design::kDflash2) read_selector(source);
    if (c_.design == Design::kDspark && c_.rank > 0) read_markov_head(source);
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

  void block(Program& p, const Model& target, std::vector<std::int32_t> labels) const {
    Row x = scaled(p, p.embed(embedding_.empty() ? target.embedding : embedding_), c_.embedding_scale);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      Around around = before(p, layer.attention, p.norm(x, layer.input_norm, eps_));
      const std::vector<Row> in = p.linear(around.in, {layer.q, layer.k, layer.v});
      Attention attend = attention(i);
      attend.q = in[0], attend.k = in[1], attend.v = in[2];
      attend.q_norm = layer.q_norm;
      x = p.add(x, after(p, layer.attention, around, p.linear(p.attend(std::move(attend)), {layer.o})[0]));
      around = before(p, layer.mlp, p.norm(x, layer.post_norm, eps_));
      const std::vector<Row> mlp = p.linear(around.in, {layer.gate, layer.up});
      x = p.add(x, after(p, layer.mlp, around, p.linear(p.swiglu(mlp[0], mlp[1]), {layer.down})[0]));
    }
    const Row last = p.norm(x, norm_, eps_);
    Logits logits{scaled(p, last, c_.multiplier), lm_head_.empty() ? target.lm_head : lm_head_, {}};
    logits.softcap = static_cast<float>(c_.softcap);
    logits.labels = std::move(labels);
    p.logits(std::move(logits));
    if (walk_.candidates == 0) return p.sample();
    Walk walk = walk_;
    if (!factors_.empty()) walk.factors = p.linear(last, {factors_})[0];
    p.walk(std::move(walk));
  }

 private:
  /// The input of a sublayer, and the kernel updates of its two convolutions.
  struct Around {
    Row in, coefficients;
  };
  static Row scaled(Program& p, Row x, double factor) {
    return factor == 1 ? x : p.append(Scale{x, static_cast<float>(factor), {}});
  }
  LocalConv convolution(const Convolutions& weights, Row x, Row coefficients, int side) const {
    return {x, coefficients, weights.base, c_.taps, c_.groups, side, {}};
  }
  Around before(Program& p, const Convolutions& weights, Row x) const {
    if (c_.taps == 0) return {x, {}};
    const Row coefficients = p.linear(x, {weights.projection})[0];
    return {p.append(convolution(weights, x, coefficients, 0)), coefficients};
  }
  Row after(Program& p, const Convolutions& weights, const Around& around, Row x) const {
    return c_.taps == 0 ? x : p.append(convolution(weights, x, around.coefficients, 1));
  }

  Convolutions convolutions(WeightSource& source, const std::string& prefix) const {
    return {source.flat_matrix(prefix + "base_kernel", 2, std::int64_t{c_.taps} * c_.hidden),
            source.matrix(prefix + "kernel_projection", 2 * c_.taps * c_.groups, c_.hidden)};
  }

  void read_selector(WeightSource& source) {
    const auto codebook = [&](std::string name) {
      if (source.has(name + ".weight")) name += ".weight";
      return source.matrix(name, c_.vocabulary, c_.rank);
    };
    walk_.predecessor = codebook("candidate_selector.predecessor_codebook");
    walk_.successor = codebook("candidate_selector.successor_codebook");
    factors_ = source.matrix("candidate_selector.hidden_projection", c_.rank, c_.hidden);
    walk_.candidates = c_.candidates, walk_.excluded = c_.mask_token;
  }

  void read_markov_head(WeightSource& source) {
    const std::string prefix = source.has("markov_head.markov_w1") ? "markov_head." : "";
    walk_.predecessor = source.matrix(prefix + "markov_w1", c_.vocabulary, c_.rank);
    walk_.successor = source.matrix(prefix + "markov_w2", c_.draft_vocabulary, c_.rank);
    walk_.candidates = c_.candidates, walk_.excluded = c_.mask_token;
  }

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
  Weight fc_, hidden_norm_, norm_, factors_;
  Weight embedding_, lm_head_;  // its own; empty: the target's
  std::vector<Layer> layers_;
  Walk walk_;
};

Status build(DraftNetwork& network, const DraftConfig& draft_config, WeightSource& source,
             const Model& target) {
  const auto& config = static_cast<const Config&>(draft_config);
  FT_TRY(check_design(config, source));
  const Builder builder(config, source);
  FT_TRY(source.status());
  std::vector<std::int32_t> labels;
  if (config.draft_vocabulary < config.vocabulary) {
    FT_ASSIGN(labels, read_labels(source.index(), config.draft_vocabulary, config.vocabulary));
  }
  network.programs.resize(2);
  builder.context(network.programs[0]);
  builder.block(network.programs[1], target, std::move(labels));
  network.design = design_name(config.design);
  network.most_drafts = config.most_drafts();
  network.mask_token = config.mask_token;
  network.drafts_from_anchor = config.from_anchor;
  return {};
}

Result<std::unique_ptr<DraftConfig>> read(const format::ConfigFiles& files, const ModelFacts& target) {
  FT_ASSIGN(Config config, Config::read(files, target));
  return std::unique_ptr<DraftConfig>(std::make_unique<Config>(std::move(config)));
}

/// DSpark's confidence head predicts which drafts are right; DepthPolicy learns that from the rounds.
std::string unused_part(const format::Checkpoint& checkpoint) {
  const auto of_head = [](const format::TensorView& tensor) {
    return tensor.name.find("confidence_head.") != std::string::npos ||
           tensor.name.find("confidence_proj.") != std::string::npos;
  };
  if (std::ranges::none_of(checkpoint.tensors(), of_head)) return {};
  return "its confidence head is not used; drafts are the same without it, and their number follows the "
         "measured "
         "acceptance";
}

constexpr std::string_view kOwn[] = {"", "model.", "dflash."};
constexpr format::NamePrefixes kPrefixes[] = {{"", kOwn}};
constexpr std::string_view kBareNames[] = {"base_kernel", "_codebook", "_codebook.weight", "d2t", "t2d"};
constexpr Family kTensors = {"dflash", {}, kPrefixes, kBareNames, nullptr, nullptr, nullptr};

}  // namespace

const DraftFormat kFormat = {"dflash", &kTensors, read, build, &kSynthetic, unused_part};

}  // namespace ft::dflash
