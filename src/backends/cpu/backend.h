// The cpu backend: packed weights, SIMD chosen at run time, a pool of pinned workers (executable.h explains a
// step). Owner: the caller; it must outlive its executables. Errors: unknown instruction sets, and threads
// that the machine refuses.
#pragma once

#include "backends/options.h"

namespace ft {

/// Its flags: isa, activations, kv-bits.
BackendKind cpu_backend();
Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);

}  // namespace ft
