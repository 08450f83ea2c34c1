// The published sizes of Llama and its relatives, and their tensors and config under the names of MLX
// conversions, which are Hugging Face's.
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/llama/family.h"
#include "models/synthetic/shapes.h"

namespace ft::llama {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

/// hidden, layers, MLP, heads, kv heads; tied, vocabulary, context.
constexpr Shape dense(std::string_view name, std::array<int, 5> sizes, bool tied, int vocabulary,
                      std::int64_t context, LlamaSizes own) {
  return {name, sizes[0],   sizes[1], sizes[2], sizes[3], sizes[4], 0,  0,
          tied, vocabulary, context,  0,        0,        0,        {}, own};
}

constexpr Shape sparse(Shape shape, int experts, int chosen, int expert) {
  shape.experts = experts, shape.chosen = chosen, shape.expert = expert;
  return shape;
}

constexpr LlamaSizes llama3(int head_dim, double factor) { return {"llama", head_dim, 5e5, factor}; }
constexpr LlamaSizes smollm2(double theta) { return {"llama", 64, theta}; }
constexpr LlamaSizes qwen2(int head_dim) { return {"qwen2", head_dim, 1e6, 0, 1e-6, true}; }
constexpr LlamaSizes qwen3(const char* type) { return {type, 128, 1e6, 0, 1e-6, false, true}; }

constexpr int kLlamaWords = 128256, kQwenWords = 151936;
constexpr Shape kShapes[] = {
    dense("llama3.2-1b", {2048, 16, 8192, 32, 8}, true, kLlamaWords, 131072, llama3(64, 32)),
    dense("llama3.2-3b", {3072, 28, 8192, 24, 8}, true, kLlamaWords, 131072, llama3(128, 32)),
    dense("llama3.1-8b", {4096, 32, 14336, 32, 8}, false, kLlamaWords, 131072, llama3(128, 8)),
    dense("llama3.1-70b", {8192, 80, 28672, 64, 8}, false, kLlamaWords, 131072, llama3(128, 8)),
    dense("smollm2-135m", {576, 30, 1536, 9, 3}, true, 49152, 8192, smollm2(1e5)),
    dense("smollm2-360m", {960, 32, 2560, 15, 5}, true, 49152, 8192, smollm2(1e5)),
    dense("smollm2-1.7b", {2048, 24, 8192, 32, 32}, true, 49152, 8192, smollm2(130000)),
    dense("smollm3-3b", {2048, 36, 11008, 16, 4}, true, kLlamaWords, 65536, {"smollm3", 128, 5e6, 0, 1e-6}),
    dense("qwen2.5-0.5b", {896, 24, 4864, 14, 2}, true, kQwenWords, 32768, qwen2(64)),
    dense("qwen2.5-1.5b", {1536, 28, 8960, 12, 2}, true, kQwenWords, 32768, qwen2(128)),
    dense("qwen2.5-3b", {2048, 36, 11008, 16, 2}, true, kQwenWords, 32768, qwen2(128)),
    dense("qwen2.5-7b", {3584, 28, 18944, 28, 4}, false, 152064, 32768, qwen2(128)),
    dense("qwen2.5-14b", {5120, 48, 13824, 40, 8}, false, 152064, 32768, qwen2(128)),
    dense("qwen2.5-32b", {5120, 64, 27648, 40, 8}, false, 152064, 32768, qwen2(128)),
    dense("qwen2.5-72b", {8192, 80, 29568, 64, 8}, false, 152064, 32768, qwen2(128)),
    dense("mistral-nemo", {5120, 40, 14336, 32, 8}, false, 131072, 131072, {"mistral", 128, 1e6}),
    dense("mistral-small-24b", {5120, 40, 32768, 32, 8}, false, 131072, 32768, {"mistral", 128, 1e8}),
    dense("granite3.3-2b", {2048, 40, 8192, 32, 8}, true, 49159, 131072, {"granite", 64, 1e7}),
    dense("granite3.3-8b", {4096, 40, 12800, 32, 8}, true, 49159, 131072, {"granite", 128, 1e7}),
    dense("qwen3-0.6b", {1024, 28, 3072, 16, 8}, true, kQwenWords, 40960, qwen3("qwen3")),
    dense("qwen3-1.7b", {2048, 28, 6144, 16, 8}, true, kQwenWords, 40960, qwen3("qwen3")),
    dense("qwen3-4b", {2560, 36, 9728, 32, 8}, true, kQwenWords, 40960, qwen3("qwen3")),
    dense("qwen3-8b", {4096, 36, 12288, 32, 8}, false, kQwenWords, 40960, qwen3("qwen3")),
    dense("qwen3-14b", {5120, 40, 17408, 40, 8}, false, kQwenWords, 40960, qwen3("qwen3")),
    dense("qwen3-32b", {5120, 64, 25600, 64, 8}, false, kQwenWords, 40960, qwen3("qwen3")),
    sparse(dense("qwen3-30b-a3b", {2048, 48, 6144, 32, 4}, false, kQwenWords, 40960, qwen3("qwen3_moe")), 128,
           8, 768),
    sparse(dense("qwen3-235b-a22b", {4096, 94, 12288, 64, 4}, false, kQwenWords, 40960, qwen3("qwen3_moe")),
           128, 8, 1536),
    sparse(dense("qwen3-coder-480b-a35b", {6144, 62, 8192, 96, 8}, false, kQwenWords, 262144,
                 {"qwen3_moe", 128, 1e7, 0, 1e-6, false, true}),
           160, 8, 2560),
};

class Tensors {
 public:
  explicit Tensors(const Shape& shape) : s_(shape) {}

  void model() {
    // Spreads logits over a few units, as a trained LM head does.
    matrix("model.embed_tokens", s_.vocabulary, s_.hidden, 2);
    for (int i = 0; i < s_.layers; ++i) layer(fmt::format("model.layers.{}.", i));
    norm("model.norm", s_.hidden);
    if (!s_.tied) matrix("lm_head", s_.vocabulary, s_.hidden, 2);
  }
  std::vector<SynthTensor> list;

 private:
  void matrix(const std::string& module, std::int64_t rows, std::int64_t cols, double scale = 1) {
    list.push_back({module, Kind::kMatrix, rows, cols, scale});
  }
  void norm(const std::string& module, std::int64_t width) {
    list.push_back({module, Kind::kNorm, 1, width, 1});
  }

  void layer(const std::string& prefix) {
    norm(prefix + "input_layernorm", s_.hidden);
    attention(prefix + "self_attn.");
    norm(prefix + "post_attention_layernorm", s_.hidden);
    if (s_.experts > 0) return experts(prefix + "mlp.");
    matrix(prefix + "mlp.gate_proj", s_.intermediate, s_.hidden);
    matrix(prefix + "mlp.up_proj", s_.intermediate, s_.hidden);
    matrix(prefix + "mlp.down_proj", s_.hidden, s_.intermediate);
  }

  void attention(const std::string& prefix) {
    const std::int64_t width = std::int64_t{s_.heads} * s_.llama->head_dim;
    const std::int64_t kv_width = std::int64_t{s_.kv_heads} * s_.llama->head_dim;
    matrix(prefix + "q_proj", width, s_.hidden);
    matrix(prefix + "k_proj", kv_width, s_.hidden);
    matrix(prefix + "v_proj", kv_width, s_.hidden);
    matrix(prefix + "o_proj", s_.hidden, width);
    if (s_.llama->qkv_bias) {
      for (const auto& [leaf, rows] :
           {std::pair("q_proj.bias", width), {"k_proj.bias", kv_width}, {"v_proj.bias", kv_width}})
        list.push_back({prefix + leaf, Kind::kBias, 1, rows, 0.2});
    }
    if (!s_.llama->qk_norm) return;
    norm(prefix + "q_norm", s_.llama->head_dim);
    norm(prefix + "k_norm", s_.llama->head_dim);
  }

  void experts(const std::string& prefix) {
    list.push_back({prefix + "gate", Kind::kPlainMatrix, s_.experts, s_.hidden, 1});
    const auto stack = [&](const char* leaf, std::int64_t rows, std::int64_t cols) {
      list.push_back({prefix + "switch_mlp." + leaf, Kind::kMatrix, s_.experts * rows, cols, 1, s_.experts});
    };
    stack("gate_proj", s_.expert, s_.hidden);
    stack("up_proj", s_.expert, s_.hidden);
    stack("down_proj", s_.hidden, s_.expert);
  }

  const Shape& s_;
};

std::vector<SynthTensor> target_of(const Shape& shape) {
  Tensors tensors(shape);
  tensors.model();
  return std::move(tensors.list);
}

Json config_of(const Shape& shape, bool /*mtp*/) {
  const LlamaSizes& own = *shape.llama;
  Json config{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", own.model_type},
              {"vocab_size", shape.vocabulary},
              {"hidden_size", shape.hidden},
              {"intermediate_size", shape.intermediate},
              {"num_hidden_layers", shape.layers},
              {"num_attention_heads", shape.heads},
              {"num_key_value_heads", shape.kv_heads},
              {"head_dim", own.head_dim},
              {"hidden_act", "silu"},
              {"rms_norm_eps", own.eps},
              {"rope_theta", own.theta},
              {"max_position_embeddings", shape.context},
              {"tie_word_embeddings", shape.tied}};
  if (own.llama3_factor > 0) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", own.llama3_factor},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
  }
  if (own.model_type == "mistral") config["sliding_window"] = nullptr;
  if (own.model_type == "granite") {
    config["embedding_multiplier"] = 12.0, config["residual_multiplier"] = 0.22;
    config["attention_multiplier"] = 1.0 / own.head_dim;
    config["logits_scaling"] = shape.hidden == 4096 ? 16.0 : 8.0;
  }
  if (shape.experts > 0) {
    config["num_experts"] = shape.experts, config["num_experts_per_tok"] = shape.chosen;
    config["moe_intermediate_size"] = shape.expert, config["norm_topk_prob"] = true;
  }
  return config;
}

}  // namespace

const SyntheticModels kSynthetic = {kShapes, target_of, nullptr, config_of};

}  // namespace ft::llama
