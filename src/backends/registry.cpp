#include "backends/registry.h"

#include <fmt/format.h>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/metal/backend.h"
#include "backends/ref/backend.h"
#include "format/out_of_memory.h"

namespace ft {

std::vector<std::string> backend_names() { return {"cpu", "cuda", "metal", "metal-twin", "ref"}; }

const char* gpu_backend() {
#ifdef __APPLE__
  return "metal";
#else
  return "cuda";
#endif
}

namespace {

Result<std::unique_ptr<Backend>> make_cuda(const BackendOptions& options) {
  return format::with_memory_guard("start", "cuda backend", [&] { return make_cuda_backend(options); });
}

}  // namespace

Result<std::unique_ptr<Backend>> choose_backend(const BackendOptions& options,
                                                Result<std::unique_ptr<Backend>> gpu) {
  Status good = gpu.ok() ? Status() : Status(gpu.error());
  if (good.ok() && options.check_device) good = options.check_device(**gpu);
  if (good.ok()) return gpu;
  if (good.error().code == Code::kInvalid) return good.error();  // a GPU that was asked for by number
  if (good.error().code != Code::kNotFound && options.notice)
    options.notice("--backend auto falls back to the CPU: " + good.error().message);
  return make_cpu_backend(options);
}

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (options.name == "ref") {
    if (options.kv_bits == 8) {
      return Error{Code::kInvalid,
                   "ref backend: it stores keys and values in float32; --kv-bits 8 needs --backend cpu"};
    }
    using Made = Result<std::unique_ptr<Backend>>;
    return format::with_memory_guard("start", "ref backend", []() -> Made { return make_ref_backend(); });
  }
  if (options.name == "cpu") return make_cpu_backend(options);
  if (options.name == "cuda") return make_cuda(options);
  if (options.name == "metal" || options.name == "metal-twin") {
    return format::with_memory_guard("start", "metal backend", [&] {
      return options.name == "metal" ? make_metal_backend(options) : make_metal_twin_backend(options);
    });
  }
  if (options.name == "auto") {
    const bool only_cpu = options.isa != "auto" || options.activations == 16;
    if (only_cpu) return make_cpu_backend(options);
    BackendOptions gpu = options;
    gpu.name = gpu_backend();
    return choose_backend(options, make_backend(gpu));
  }
  return Error{
      Code::kInvalid,
      fmt::format("backend '{}' is unknown; choose auto, cpu, cuda, metal, metal-twin or ref", options.name)};
}

}  // namespace ft
