// DFlash2 in the shape that is published for Qwen3.8-27B, with the width and the vocabulary of any target.
#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/dflash/format.h"

namespace ft::dflash {
namespace {

using Json = nlohmann::ordered_json;
using Kind = SynthTensor::Kind;

constexpr int kBlock = 8, kTaps = 2, kGroup = 16, kRank = 256, kCandidates = 16, kWindow = 2048;
constexpr int kLayers = 5, kMaxHeads = 32, kHeadDim = 128;

int layers_for(const ModelFacts& target) { return std::min(kLayers, target.layers); }
int heads_for(const ModelFacts& target) {
  return std::min(kMaxHeads, static_cast<int>(std::bit_floor(static_cast<unsigned>(target.width) / 64)));
}
int kv_heads_for(const ModelFacts& target) { return std::max(1, heads_for(target) / 4); }
/// 17408 for a width of 5120.
int intermediate_for(const ModelFacts& target) { return std::max(128, target.width * 17 / 5 / 128 * 128); }

Json synthetic_config(const ModelFacts& target) {
  const int layers = layers_for(target);
  Json ids = Json::array(), types = Json::array();
  for (int i = 0; i < layers; ++i) {
    ids.push_back((2 * i + 1) * target.layers / (2 * layers));
    types.push_back("sliding_attention");
  }
  return {{"architectures", {"DFlash2DraftModel"}},
          {"model_type", "qwen3"},
          {"hidden_size", target.width},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads_for(target)},
          {"num_key_value_heads", kv_heads_for(target)},
          {"head_dim", kHeadDim},
          {"intermediate_size", intermediate_for(target)},
          {"vocab_size", target.vocabulary},
          {"is_causal", false},
          {"layer_types", std::move(types)},
          {"use_sliding_window", true},
          {"sliding_window", kWindow},
          {"max_position_embeddings", target.context},
          {"rope_theta", 1e7},
          {"dflash_config", Json{{"block_size", kBlock},
                                 {"mask_token_id", target.vocabulary - 1},
                                 {"target_layer_ids", std::move(ids)},
                                 {"conv_kernel_size", kTaps},
                                 {"conv_group_size", kGroup},
                                 {"selector_rank", kRank},
                                 {"selector_top_k", kCandidates}}}};
}

std::vector<SynthTensor> synthetic_tensors(const ModelFacts& target) {
  std::vector<SynthTensor> list;
  const std::int64_t width = target.width, vocabulary = target.vocabulary;
  const std::int64_t q = std::int64_t{heads_for(target)} * kHeadDim, kv = kv_heads_for(target) * kHeadDim;
  const std::int64_t wide = intermediate_for(target), kernels = 2 * kTaps * (width / kGroup);
  const auto matrix = [&](std::string name, std::int64_t rows, std::int64_t cols, double scale = 1) {
    list.push_back({std::move(name), Kind::kMatrix, rows, cols, scale});
  };
  const auto norm = [&](std::string name, std::int64_t size) {
    list.push_back({std::move(name), Kind::kNorm, 1, size, 1});
  };
  matrix("fc", width, layers_for(target) * width);
  norm("hidden_norm", width), norm("norm", width);
  for (int i = 0; i < layers_for(target); ++i) {
    const std::string at = fmt::format("layers.{}.", i);
    norm(at + "input_layernorm", width), norm(at + "post_attention_layernorm", width);
    norm(at + "self_attn.q_norm", kHeadDim), norm(at + "self_attn.k_norm", kHeadDim);
    matrix(at + "self_attn.q_proj", q, width), matrix(at + "self_attn.k_proj", kv, width);
    matrix(at + "self_attn.v_proj", kv, width), matrix(at + "self_attn.o_proj", width, q);
    matrix(at + "mlp.gate_proj", wide, width), matrix(at + "mlp.up_proj", wide, width);
    matrix(at + "mlp.down_proj", width, wide);
    for (const char* conv : {"attention_conv.", "mlp_conv."}) {
      matrix(at + conv + "kernel_projection", kernels, width, 0.1);
      list.push_back({at + conv + "base_kernel", Kind::kBias, 2 * kTaps, width, 1, 2});
    }
  }
  for (const char* side : {"predecessor", "successor"})
    list.push_back(
        {fmt::format("candidate_selector.{}_codebook", side), Kind::kPlainMatrix, vocabulary, kRank, 1});
  matrix("candidate_selector.hidden_projection", kRank, width);
  return list;
}

}  // namespace

const SyntheticDraft kSynthetic = {"dflash2", synthetic_config, synthetic_tensors};

}  // namespace ft::dflash
