#include "backends/cuda/backend.h"

#include <charconv>
#include <fmt/format.h>
#include <optional>

#include "backends/cuda/compiler.h"
#include "backends/cuda/device.h"
#include "backends/cuda/state.h"
#include "backends/precision_flags.h"

namespace ft {
namespace cuda {

std::function<std::shared_ptr<Device>()> substitute_device;

namespace {

constexpr int kPrefillChunk = 1024;  // prompt rows of a step: weights are read once for all of them

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::shared_ptr<Device> device, std::shared_ptr<RoundTokens> round, const Precision& precision)
      : device_(std::move(device)),
        weights_(std::make_shared<WeightStore>(device_)),
        scratch_(std::make_shared<Scratch>(device_)),
        round_(std::move(round)),
        precision_(precision) {}

  std::string_view name() const override { return "cuda"; }
  std::string describe() const override {
    const DeviceFacts& facts = device_->facts();
    return fmt::format("cuda, {} ({}, {} multiprocessors, {:.1f} GB), driver for CUDA {}, {}", facts.name,
                       facts.architecture, facts.processors,
                       static_cast<double>(device_->total_bytes()) * 1e-9, facts.driver, choices());
  }
  // Integer sums and IEEE operations in a written order: all GPUs have the same bits. With 16-bit activations
  // the matrix unit adds, which differs between generations.
  std::string arithmetic() const override {
    const std::string unit = precision_.arithmetic == Arithmetic::kHalves
                                 ? fmt::format(", sums of {}'s matrix unit", device_->facts().architecture)
                                 : "";
    return "cuda, " + choices() + unit + ", eight slices, codes of 16, heads in warps";
  }
  Limits limits(const StateLayout& layout) const override {
    const StatePlan plan(layout, precision_.kv_bits);
    return {.block_bytes = plan.block_bytes,
            .slot_bytes = plan.slot_bytes,
            .memory_bytes = device_->free_bytes(),
            .prefill_chunk = kPrefillChunk};
  }
  Status check_supported(const Program& program) const override { return cuda::check_supported(program); }
  double measured_bandwidth_gb_s() override { return device_->copy_gb_per_s(); }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    return cuda::compile(program, options, device_, weights_, scratch_, round_, precision_);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return CudaState::make(device_, layout, options, precision_.kv_bits);
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return CudaRows::make(device_, width, capacity);
  }
  Result<std::unique_ptr<RowBorder>> make_border(int width, int capacity) override {
    return CudaBorder::make(device_, width, capacity);
  }

 private:
  std::string choices() const {
    return fmt::format("{}-bit activations{}", precision_.arithmetic == Arithmetic::kHalves ? 16 : 8,
                       precision_.kv_bits == 8 ? ", 8-bit keys and values" : "");
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<WeightStore> weights_;
  std::shared_ptr<Scratch> scratch_;
  std::shared_ptr<RoundTokens> round_;
  Precision precision_;
};

constexpr const char* kDevice = "device";
constexpr int kMaxDevices = 64;

std::optional<int> device_number(const std::string& value) {
  int number = 0;
  const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool good = failure == std::errc() && end == value.data() + value.size();
  return good && number >= 0 && number < kMaxDevices ? std::optional(number) : std::nullopt;
}

Result<std::shared_ptr<Device>> find_device(const BackendSettings& settings) {
  const std::string value = settings.value(kDevice, "0");
  if (value != kEmulatedDevice) return open_device({.number = device_number(value).value_or(0)});
  if (substitute_device) return substitute_device();
  return Error{Code::kUnsupported, "cuda backend: only test programs have the emulated device"};
}

BackendFlag device_flag() {
  return {kDevice, "N", "0", "GPU of the cuda backend: 0 (default) is the first one",
          [](const std::string& value) -> Status {
            if (device_number(value) || (substitute_device && value == kEmulatedDevice)) return {};
            return Error{Code::kInvalid, fmt::format("expected a whole number from 0 to {}, found '{}'",
                                                     kMaxDevices - 1, value)};
          }};
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend_on(std::shared_ptr<Device> device, int kv_bits,
                                                 int activation_bits) {
  try {
    const Precision precision{kv_bits, activation_bits == 16 ? Arithmetic::kHalves : Arithmetic::kCodes};
    FT_ASSIGN(std::shared_ptr<RoundTokens> round, RoundTokens::make(device));
    return std::unique_ptr<Backend>(
        std::make_unique<CudaBackend>(std::move(device), std::move(round), precision));
  } catch (const std::runtime_error& failure) {  // DeviceError, BackendLost
    return Error{Code::kIo, failure.what()};
  }
}

}  // namespace cuda

BackendKind cuda_backend() {
  return {"cuda", {cuda::device_flag(), activations_flag(), kv_bits_flag()}, make_cuda_backend};
}

Result<std::unique_ptr<Backend>> make_cuda_backend(const BackendOptions& options) {
  FT_ASSIGN(std::shared_ptr<cuda::Device> device, cuda::find_device(options.settings));
  return cuda::make_backend_on(std::move(device), kv_bits(options.settings),
                               activation_bits(options.settings));
}

}  // namespace ft
