// The cuda backend: one NVIDIA GPU of compute capability 8.0 or later. It needs NVIDIA's driver where it runs
// and nothing else; kernels are compiled when the program is built
// (docs/decisions/014-cuda-kernels-at-build-time.md).
#pragma once

#include <functional>
#include <memory>

#include "backends/options.h"
#include "program/backend.h"

namespace ft {

/// Its flags: device, kv-bits, and activations (8 bits by default).
BackendKind cuda_backend();
/// Errors: kNotFound if this machine has no GPU or driver, or this build no kernels; kInvalid for a wrong GPU
/// number; kUnsupported for a GPU or driver that is too old.
Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options);

namespace cuda {

class Device;
inline constexpr const char* kEmulatedDevice = "emulated";  // a value of --device that only tests set
Result<std::unique_ptr<Backend>> make_backend_on(std::shared_ptr<Device> device, int kv_bits,
                                                 int activation_bits = 8);
/// Test hook: the device of that name (kEmulatedDevice); empty in the program.
extern std::function<std::shared_ptr<Device>()> substitute_device;

}  // namespace cuda
}  // namespace ft
