// The backend for Apple GPUs: our own kernels, one text that is Metal on a Mac and C++ on the host
// (backends/metal/README.md). On a Mac nothing of it has run yet. make_metal_twin_backend gives the host's
// form, for tests and `verify`. Errors: kNotFound where there is no GPU of Apple, kUnsupported for a program
// or an option that it lacks.
#pragma once

#include "backends/registry.h"

namespace ft {

Result<std::unique_ptr<Backend>> make_metal_backend(const BackendOptions& options);
Result<std::unique_ptr<Backend>> make_metal_twin_backend(const BackendOptions& options);

}  // namespace ft
