// How the Gemma 4 family names its tensors.
#pragma once

#include <array>
#include <string_view>

#include "format/weights.h"

namespace ft::gemma4 {

extern const std::array<format::NamePrefixes, 2> kPrefixes;
inline constexpr std::array<std::string_view, 1> kBareNames = {"layer_scalar"};

}  // namespace ft::gemma4
