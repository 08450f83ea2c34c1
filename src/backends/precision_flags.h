// The flags of precision that several backends take.
#pragma once

#include "backends/options.h"

namespace ft {

BackendFlag kv_bits_flag();
/// 16 or 8.
int kv_bits(const BackendSettings& settings);

BackendFlag activations_flag();
/// 16 or 8; 0: the backend's default.
int activation_bits(const BackendSettings& settings);

}  // namespace ft
