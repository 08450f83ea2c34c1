// The end of the sentence that refuses a checkpoint with parts that no instruction computes.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// "; not implemented: latent attention (MLA)"; nothing without parts.
inline std::string not_implemented(std::string_view parts) {
  return parts.empty() ? "" : "; not implemented: " + std::string(parts);
}

}  // namespace ft
