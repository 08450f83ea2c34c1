// The cpu backend: packed weights, SIMD chosen at run time, a pool of pinned workers (executable.h says how
// it runs). Owner: the caller; it must outlive what it compiles. Thread: the engine thread. Errors: unknown
// instruction sets, threads that the machine refuses.
#pragma once

#include "backends/registry.h"

namespace ft {

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options);

}  // namespace ft
