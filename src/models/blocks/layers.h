// The parts of a decoder layer that families share, as free functions: each reads its weights by canonical
// name and appends its instructions. Failures are in source.status().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/blocks/rope.h"
#include "models/weight_source.h"
#include "program/program.h"

namespace ft::blocks {

struct AttentionPart {
  int heads = 0, kv_heads = 0, head_dim = 0;
  int hidden = 0;              // width of the result
  const Rope* rope = nullptr;  // null: positions turn nothing
  std::vector<std::uint8_t> frequency_axes = {};
  float eps = 0;
  float scale = 0;  // of scores; 0: head_dim^-1/2
  int window = 0;   // positions that a row sees; 0: all
  bool gated = false;
  bool qk_norm = false;  // q_norm and k_norm over a head, before the rotation
  bool qkv_bias = false, o_bias = false;
  bool sinks = false;  // `sinks` [heads]
};

/// `prefix` ends in a dot: "layers.3.self_attn.".
Row attention(Program& program, WeightSource& source, Row x, const std::string& prefix,
              const AttentionPart& part);

/// down(activation(gate x) * up x), of x's width. `prefix` ends in a dot: "layers.3.mlp.".
Row mlp(Program& program, WeightSource& source, Row x, const std::string& prefix, std::int64_t width,
        Activation activation = Activation::kSilu, bool bias = false);

Row norm(Program& program, WeightSource& source, Row x, const std::string& name, float eps);

/// The row itself for a factor of 1.
Row scale(Program& program, Row x, float factor);

}  // namespace ft::blocks
