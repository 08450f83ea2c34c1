// The sizes of published Qwen3.5 models (their config.json) and the tensors that a checkpoint of such a size
// has, under the names of MLX conversions. For measuring speed and memory without the weights themselves.
// Thread: any, values. Cost: none. Errors: kInvalid for an unknown shape or a group that does not divide a
// row.
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
  static constexpr int kHeadDim = 256, kLinearDim = 128, kConvTaps = 4, kFullEvery = 4;
  bool full_attention(int layer) const { return (layer + 1) % kFullEvery == 0; }
  int qkv_rows() const { return (2 * key_heads + value_heads) * kLinearDim; }
};

/// "qwen3.5-0.8b", "qwen3.5-2b" ... "tiny"; kInvalid with the list.
Result<Shape> find_shape(std::string_view name);
std::vector<std::string> shape_names();

struct SynthTensor {
  enum class Kind { kMatrix, kPlainMatrix, kNorm, kConv, kDecay, kTimeBias };
  std::string module;  // without ".weight"; kDecay and kTimeBias: the whole name
  Kind kind = Kind::kMatrix;
  std::int64_t rows = 0, cols = 0;  // 1 x n for vectors
  double scale = 1;                 // of the standard deviation 1 / sqrt(cols)
};

std::vector<SynthTensor> trunk_tensors(const Shape& shape);
std::vector<SynthTensor> head_tensors(const Shape& shape);

}  // namespace ft::cli
