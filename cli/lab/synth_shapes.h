// The sizes of published Qwen3.5 models (from their config.json) and the tensors of such checkpoints, under
// the names of MLX conversions. They measure speed and memory without the real weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct Shape {
  std::string_view name;
  int hidden, layers, intermediate, heads, kv_heads, key_heads, value_heads;
  bool tied;
  int vocabulary = 248320;
  std::int64_t context = 262144;
  // Of a mixture of experts, whose shared expert has `intermediate`; 0: dense.
  int experts = 0, chosen = 0, expert = 0;
  static constexpr int kHeadDim = 256, kLinearDim = 128, kConvTaps = 4, kFullEvery = 4;
  bool full_attention(int layer) const { return (layer + 1) % kFullEvery == 0; }
  int qkv_rows() const { return (2 * key_heads + value_heads) * kLinearDim; }
};

/// "qwen3.5-0.8b", "qwen3.5-2b" ... "tiny"; kInvalid lists the names.
Result<Shape> find_shape(std::string_view name);
std::vector<std::string> shape_names();

struct SynthTensor {
  enum class Kind { kMatrix, kPlainMatrix, kNorm, kConv, kDecay, kTimeBias };
  std::string module;  // without ".weight"; kDecay and kTimeBias: the whole name
  Kind kind = Kind::kMatrix;
  std::int64_t rows = 0, cols = 0;  // 1 x n for vectors
  double scale = 1;                 // multiplies the standard deviation 1 / sqrt(cols)
  int stack = 0;                    // `rows` are those of this number of matrices; 0: one matrix
};

std::vector<SynthTensor> target_tensors(const Shape& shape);
std::vector<SynthTensor> head_tensors(const Shape& shape);

}  // namespace ft::cli
