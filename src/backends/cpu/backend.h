// The cpu backend: packed weights, SIMD chosen at run time, a pool of pinned workers (executable.h explains a
// step). Owner: the caller; it must outlive what it compiles. Errors: unknown instruction sets, and threads
// that the machine refuses.
#pragma once

#include "backends/registry.h"

namespace ft {

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);

}  // namespace ft
