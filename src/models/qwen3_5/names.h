// How the family names its tensors, and the list of the MTP head's tensors: their canonical names and shapes,
// once for the head doctor and for synthetic checkpoints.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/weights.h"
#include "models/expert_weights.h"
#include "models/head_doctor.h"

namespace ft::qwen3_5 {

extern const std::array<format::NamePrefixes, 7> kPrefixes;
inline constexpr std::array<std::string_view, 2> kBareNames = {"A_log", "bias"};

/// The sizes that the shapes of the MTP head depend on.
struct HeadSizes {
  int layers = 1;
  std::int64_t hidden = 0, intermediate = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool gated = true;  // q_proj holds a gate with each query
  // For a mixture of experts, which has no dense MLP:
  int experts = 0;
  std::int64_t expert = 0, shared = 0;
  ExpertLayout layout = ExpertLayout::kFused;
};

std::vector<HeadTensor> head_tensors(const HeadSizes& sizes);

}  // namespace ft::qwen3_5
