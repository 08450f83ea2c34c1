// How the Gemma 4 family names its tensors.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "format/weights.h"
#include "models/expert_weights.h"

namespace ft::gemma4 {

extern const std::array<format::NamePrefixes, 2> kPrefixes;
inline constexpr std::array<std::string_view, 3> kBareNames = {"layer_scalar", "router.scale",
                                                               "router.per_expert_scale"};
/// `layer` without a dot at its end.
ExpertNames expert_names(const std::string& layer);

}  // namespace ft::gemma4
