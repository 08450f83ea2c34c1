// The backend for Apple GPUs: our own kernels, one text that is Metal on a Mac and C++ on the host
// (backends/metal/README.md). On a Mac nothing of it has run yet. make_metal_twin_backend gives the host's
// form, for tests and `verify`. Errors: kNotFound where there is no GPU of Apple, kUnsupported for a program
// or an option that it lacks.
#pragma once

#include <memory>

#include "backends/options.h"

namespace ft {

/// Their flag: kv-bits.
BackendKind metal_backend();
BackendKind metal_twin_backend();
Result<std::unique_ptr<Backend>> make_metal_backend(const BackendOptions& options);
Result<std::unique_ptr<Backend>> make_metal_twin_backend(const BackendOptions& options);

namespace metal {

class Device;
/// On any device, without a self-test.
Result<std::unique_ptr<Backend>> make_backend_on(std::shared_ptr<Device> device, int kv_bits,
                                                 const PackedCacheOptions& packed_cache = {});
/// On a device that passes the self-test (device_check.h); kUnsupported. A program is taken if the device
/// also passes it for the kernels of that program.
Result<std::unique_ptr<Backend>> make_tested_backend(std::shared_ptr<Device> device,
                                                     const BackendOptions& options);

}  // namespace metal

}  // namespace ft
