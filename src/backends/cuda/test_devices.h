// The devices on which tests of the cuda backend run: the emulated one, if the build has it, and a GPU, if
// there is one. Without a GPU its tests are skipped and counted. Owner: tests. Thread: one.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/backend.h"
#include "backends/cuda/emulator/emulator.h"
#include "backends/registry.h"

namespace ft {

/// Names of devices; auto: the first GPU.
inline std::vector<std::string> cuda_devices() {
#if FORETOKEN_EMULATES_CUDA
  cuda::offer_emulated_device();
  return {cuda::kEmulatedDevice, "auto"};
#else
  return {"auto"};
#endif
}

inline Result<std::unique_ptr<Backend>> cuda_on(const std::string& device, int kv_bits = 16,
                                                int activations = 8) {
  const std::string value = device == "auto" ? "0" : device;
  return make_backend(
      {.name = "cuda", .settings = {{"device", value}, {"kv-bits", kv_bits}, {"activations", activations}}});
}

/// Why a test cannot run on the device; empty: it can.
inline std::string why_not(const std::string& device) {
  const auto made = cuda_on(device);
  return made.ok() ? "" : made.error().message;
}

}  // namespace ft
