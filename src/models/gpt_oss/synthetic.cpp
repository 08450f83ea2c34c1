// The published sizes of gpt-oss, and their tensors and config under the names of MLX conversions. As in the
// published files, only the experts are quantised.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/gpt_oss/family.h"
#include "models/synthetic/shapes.h"

namespace ft::gpt_oss {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

constexpr int kHeadDim = 64, kWindow = 128;

constexpr Shape shape(std::string_view name, int layers, int experts) {
  constexpr int kHidden = 2880;
  return {name, kHidden, layers, kHidden, 64, 8, 0, 0, false, 201088, 131072, experts, 4, kHidden};
}

constexpr Shape kShapes[] = {shape("gpt-oss-20b", 24, 32), shape("gpt-oss-120b", 36, 128)};

class Tensors {
 public:
  explicit Tensors(const Shape& shape) : s_(shape) {}

  void model() {
    plain("model.embed_tokens", s_.vocabulary, s_.hidden, 2);
    for (int i = 0; i < s_.layers; ++i) layer(fmt::format("model.layers.{}.", i));
    norm("model.norm");
    plain("lm_head", s_.vocabulary, s_.hidden, 2);
  }
  std::vector<SynthTensor> list;

 private:
  void plain(const std::string& module, std::int64_t rows, std::int64_t cols, double scale = 1) {
    list.push_back({module, Kind::kPlainMatrix, rows, cols, scale});
  }
  void bias(const std::string& module, std::int64_t rows, std::int64_t cols) {
    list.push_back({module + ".bias", Kind::kBias, rows, cols, 0.2});
  }
  void norm(const std::string& module) { list.push_back({module, Kind::kNorm, 1, s_.hidden, 1}); }
  void biased(const std::string& module, std::int64_t rows, std::int64_t cols) {
    plain(module, rows, cols);
    bias(module, 1, rows);
  }
  void stack(const std::string& module, std::int64_t rows, std::int64_t cols) {
    list.push_back({module, Kind::kMatrix, s_.experts * rows, cols, 1, s_.experts});
    bias(module, s_.experts, rows);
  }

  void layer(const std::string& prefix) {
    const std::int64_t width = std::int64_t{s_.heads} * kHeadDim;
    const std::int64_t kv_width = std::int64_t{s_.kv_heads} * kHeadDim;
    const std::string attention = prefix + "self_attn.", experts = prefix + "mlp.experts.";
    norm(prefix + "input_layernorm");
    biased(attention + "q_proj", width, s_.hidden);
    biased(attention + "k_proj", kv_width, s_.hidden);
    biased(attention + "v_proj", kv_width, s_.hidden);
    biased(attention + "o_proj", s_.hidden, width);
    list.push_back({attention + "sinks", Kind::kBias, 1, s_.heads, 1});
    norm(prefix + "post_attention_layernorm");
    biased(prefix + "mlp.router", s_.experts, s_.hidden);
    stack(experts + "gate_proj", s_.expert, s_.hidden);
    stack(experts + "up_proj", s_.expert, s_.hidden);
    stack(experts + "down_proj", s_.hidden, s_.expert);
  }

  const Shape& s_;
};

std::vector<SynthTensor> target_of(const Shape& shape) {
  Tensors tensors(shape);
  tensors.model();
  return std::move(tensors.list);
}

Json config_of(const Shape& shape, bool /*mtp*/) {
  return {{"architectures", {"GptOssForCausalLM"}},
          {"model_type", "gpt_oss"},
          {"vocab_size", shape.vocabulary},
          {"hidden_size", shape.hidden},
          {"intermediate_size", shape.expert},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"head_dim", kHeadDim},
          {"num_local_experts", shape.experts},
          {"num_experts_per_tok", shape.chosen},
          {"sliding_window", kWindow},
          {"swiglu_limit", 7.0},
          {"attention_bias", true},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 150000},
          {"rope_scaling",
           {{"rope_type", "yarn"},
            {"factor", 32.0},
            {"beta_fast", 32.0},
            {"beta_slow", 1.0},
            {"truncate", false},
            {"original_max_position_embeddings", 4096}}},
          {"max_position_embeddings", shape.context},
          {"tie_word_embeddings", false}};
}

}  // namespace

const SyntheticModels kSynthetic = {kShapes, target_of, nullptr, config_of};

}  // namespace ft::gpt_oss
