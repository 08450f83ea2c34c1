// The reference backend: readable float32 on one thread, the oracle of the others. It is slow by design.
#pragma once

#include "backends/options.h"

namespace ft {

/// It has no flags: keys, values and activations are float32.
BackendKind ref_backend();
std::unique_ptr<Backend> make_ref_backend();

}  // namespace ft
