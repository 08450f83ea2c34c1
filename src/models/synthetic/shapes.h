// The sizes of published models (from their config.json) and the tensors of such checkpoints, under the names
// of MLX conversions. They measure speed and memory without the real weights. Each family lists its own.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft {

/// Sizes that only Gemma 4 has.
struct GemmaSizes {
  int full_kv_heads, window, full_every;
  bool k_is_v = false;            // full layers use keys as values
  int per_layer = 0;              // width of per-layer embeddings; 0: none
  int shared_layers = 0;          // at the end, which share keys and values of earlier layers
  bool wide_when_shared = false;  // those have an MLP of twice the width
};

/// Sizes that only Llama and its relatives have.
struct LlamaSizes {
  std::string_view model_type;
  int head_dim;
  double theta;
  double llama3_factor = 0;  // of Llama 3's stretched rope; 0: none
  double eps = 1e-5;
  bool qkv_bias = false, qk_norm = false;
};

/// Sizes that only GLM has.
struct GlmSizes {
  int head_dim, dense_layers, dense_size;
  bool qk_norm;
  double factor;  // of the experts' weights
};

struct Shape {
  std::string_view name;
  int hidden, layers, intermediate, heads, kv_heads, key_heads, value_heads;
  bool tied;
  int vocabulary = 248320;
  std::int64_t context = 262144;
  // For a mixture of experts, whose shared expert has `intermediate`; 0: dense.
  int experts = 0, chosen = 0, expert = 0;
  std::optional<GemmaSizes> gemma = {};
  std::optional<LlamaSizes> llama = {};
  std::optional<GlmSizes> glm = {};
  static constexpr int kHeadDim = 256, kLinearDim = 128, kConvTaps = 4, kFullEvery = 4;
  bool full_attention(int layer) const { return (layer + 1) % kFullEvery == 0; }
  int qkv_rows() const { return (2 * key_heads + value_heads) * kLinearDim; }
};

struct SynthTensor {
  enum class Kind { kMatrix, kPlainMatrix, kNorm, kBareNorm, kConv, kDecay, kTimeBias, kBias };
  std::string module;  // without ".weight"; kBareNorm, kDecay, kTimeBias and kBias: the whole name
  Kind kind = Kind::kMatrix;
  std::int64_t rows = 0, cols = 0;  // 1 x n for vectors
  double scale = 1;                 // multiplies the standard deviation 1 / sqrt(cols)
  int stack = 0;                    // `rows` are the rows of this many matrices; 0: one matrix
};

/// The synthetic models of a family.
struct SyntheticModels {
  std::span<const Shape> shapes;
  std::vector<SynthTensor> (*target)(const Shape&);
  std::vector<SynthTensor> (*head)(const Shape&);  // the MTP head; null: the family has none
  /// config.json without the keys that all synthetic models have.
  nlohmann::ordered_json (*config)(const Shape&, bool mtp);
};

/// "qwen3.5-0.8b", "qwen3.5-2b" ... "tiny"; kInvalid lists the names.
Result<Shape> find_shape(std::string_view name);
std::vector<std::string> shape_names();
/// The models of the family that lists the shape.
const SyntheticModels& models_of(const Shape& shape);

bool has_head(const Shape& shape);
std::vector<SynthTensor> target_tensors(const Shape& shape);
/// `shape` must have a head.
std::vector<SynthTensor> head_tensors(const Shape& shape);

}  // namespace ft
