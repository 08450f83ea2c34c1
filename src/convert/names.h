// The kind of a source tensor and its name in MLX: the part of a conversion that depends on the family.
// Source of the names: `sanitize` of mlx-lm's model files (0.32).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "models/family.h"

namespace ft::convert {

enum class TensorKind {
  kLinear,     // a matrix of the target that is quantised to the base width
  kEmbedding,  // embedding and LM head
  kSmall,      // routers and the small projections of the gated delta rule: 8 bits
  kAsStored,   // norms, vectors, the state's parameters
  kShifted,    // a norm to which MLX adds 1
  kConv,       // [C,1,K], which MLX stores as [C,K,1]
  kExperts,    // gate_up_proj or down_proj of all experts, or one matrix of one expert
  kVision,     // vision or audio tower and its projector
  kMtp,        // the MTP head
};

/// The names for a model_type of config.json; kUnsupported states an unknown type.
Result<const ConversionNames*> find_names(const std::string& model_type, const std::string& origin);

/// Without prefixes of exporters: "layers.0.mlp.gate_proj.weight", "mtp.fc.weight", "lm_head.weight".
std::string canonical_name(std::string_view stored);
/// MLX's name of a canonical one: "language_model.model.layers.0.mlp.gate_proj.weight".
std::string mlx_name(const ConversionNames& names, std::string_view canonical);
TensorKind kind_of(const ConversionNames& names, std::string_view canonical, std::size_t dimensions);

/// A part of the experts of a layer, if the name is one.
struct ExpertPart {
  std::string before;       // "layers.0.mlp.", or ".. .experts." for gemma4: the prefix of MLX's module
  std::string projection;   // "gate_proj", "up_proj", "down_proj", or "gate_up_proj"
  std::int64_t index = -1;  // of one expert; -1: all experts are in the tensor
};
bool read_expert_part(const ConversionNames& names, std::string_view canonical, ExpertPart& part);
/// "layers.0.mlp.switch_mlp.gate_proj.weight"
std::string expert_name(const ConversionNames& names, const ExpertPart& part, std::string_view projection);

}  // namespace ft::convert
