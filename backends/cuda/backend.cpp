#include "backends/cuda/backend.h"

#include <fmt/format.h>

#include "backends/cuda/device.h"
#include "backends/cuda/executable.h"
#include "backends/cuda/state.h"

namespace ft {
namespace cuda {

std::function<std::shared_ptr<Device>()> substitute_device;

namespace {

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<Device> device, int kv_bits)
      : device_(std::move(device)), weights_(std::make_shared<WeightStore>(device_)), kv_bits_(kv_bits) {}

  std::string_view name() const override { return "cuda"; }
  std::string describe() const override {
    const DeviceFacts& facts = device_->facts();
    return fmt::format("cuda, {} ({}, {} multiprocessors), driver for CUDA {}, {}", facts.name,
                       facts.architecture, facts.processors, facts.driver, choices());
  }
  // Integer sums and IEEE operations in a written order: no GPU has other bits than the next.
  std::string arithmetic() const override { return "cuda, " + choices() + ", eight slices"; }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    return cuda::compile(program, options, device_, weights_, kv_bits_);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return CudaState::make(device_, layout, options, kv_bits_);
  }

 private:
  std::string choices() const {
    return fmt::format("8-bit activations{}", kv_bits_ == 8 ? ", 8-bit keys and values" : "");
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<WeightStore> weights_;
  int kv_bits_;
};

Result<std::shared_ptr<Device>> find_device(const BackendOptions& options) {
  if (options.isa != "emulated") return open_device(0);
  if (substitute_device) return substitute_device();
  return Error{Code::kUnsupported, "cuda backend: only test programs have the emulated device"};
}

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  if (options.activations != 0 && options.activations != 8)
    return Error{Code::kInvalid,
                 "cuda backend: it multiplies with 8-bit activations; leave --activations out"};
  if (options.kv_bits != 8 && options.kv_bits != 16) {
    return Error{Code::kInvalid,
                 fmt::format("cuda backend: keys and values of {} bits; use 8 or 16", options.kv_bits)};
  }
  FT_ASSIGN(std::shared_ptr<cuda::Device> device, cuda::find_device(options));
  return std::unique_ptr<Backend>(std::make_unique<cuda::CudaBackend>(std::move(device), options.kv_bits));
}

}  // namespace ft
