// The GPU of a Mac. Compiled and linked on Linux (tools/check --only mac); it has not run on a Mac yet.
#include "backends/metal/device.h"

#include <cstring>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <vector>

#include "backends/metal/kernel_text.h"
#include "backends/metal/macos/objective_c.h"

namespace ft::metal {
namespace {

constexpr std::uint64_t kApple7 = 1007;    // MTLGPUFamilyApple7: M1
constexpr std::uint64_t kStatusError = 5;  // MTLCommandBufferStatusError
constexpr std::uint64_t kStorageShared = 0;
constexpr std::int64_t kMathModeSafe = 0, kFunctionsPrecise = 1;

class MetalDevice final : public Device {
 public:
  ~MetalDevice() override { finish_quietly(); }

  Status open() {
    const Pool pool;
    device_ = Owned(Runtime::get()->default_device());
    if (device_.get() == nullptr)
      return Error{Code::kNotFound, "metal backend: this Mac has no GPU for Metal"};
    if (!message<bool, std::uint64_t>(device_.get(), "supportsFamily:", kApple7)) {
      return Error{Code::kUnsupported,
                   fmt::format("metal backend: {} is older than Apple M1; use --backend cpu", gpu_name())};
    }
    queue_ = Owned(message<Object>(device_.get(), "newCommandQueue"));
    if (queue_.get() == nullptr) return Error{Code::kIo, "metal backend: the GPU gives no command queue"};
    return compile_text();
  }

  std::string_view name() const override { return "metal"; }
  std::string describe() const override {
    const Pool pool;
    return fmt::format("{}, working set {:.1f} GB, unmeasured by the project", gpu_name(),
                       static_cast<double>(memory_bytes()) / 1e9);
  }

  Result<Buffer> allocate(std::size_t bytes) override {
    const Pool pool;
    const std::uint64_t size = bytes == 0 ? 16 : bytes;
    const auto most = message<std::uint64_t>(device_.get(), "maxBufferLength");
    const auto used = message<std::uint64_t>(device_.get(), "currentAllocatedSize");
    const auto limit = static_cast<std::uint64_t>(memory_bytes());
    if (size > most || used + size > limit) {
      return Error{
          Code::kExhausted,
          fmt::format("metal backend: {:.1f} GB more do not fit beside {:.1f} GB: the GPU's limit is "
                      "{:.1f} GB, {:.1f} GB a buffer; use a smaller model or context, or raise "
                      "iogpu.wired_limit_mb (sysctl)",
                      gigabytes(size), gigabytes(used), gigabytes(limit), gigabytes(most))};
    }
    Buffer buffer;
    buffer.handle = message<Object, std::uint64_t, std::uint64_t>(
        device_.get(), "newBufferWithLength:options:", size, kStorageShared);
    if (buffer.handle == nullptr) {
      return Error{Code::kExhausted, fmt::format("metal backend: the GPU refuses {:.1f} GB; close other "
                                                 "programs or use a smaller model",
                                                 gigabytes(size))};
    }
    buffer.data = message<std::byte*>(buffer.handle, "contents");
    buffer.bytes = bytes;
    std::memset(buffer.data, 0, bytes);
    return buffer;
  }
  // The command buffer in progress keeps a reference of its own.
  void release(Buffer& buffer) override {
    if (buffer.handle != nullptr) message<void>(buffer.handle, "release");
    buffer = {};
  }

  int kernel(std::string_view name) const override {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    const Pool pool;
    const Owned function(
        message<Object, Object>(library_.get(), "newFunctionWithName:", text_of(std::string(name))));
    Object error = nullptr;
    Owned pipeline;
    if (function.get() != nullptr) {
      pipeline = Owned(message<Object, Object, Object*>(
          device_.get(), "newComputePipelineStateWithFunction:error:", function.get(), &error));
    }
    int number = -1;
    if (pipeline.get() != nullptr) {
      number = static_cast<int>(pipelines_.size());
      pipelines_.push_back(std::move(pipeline));
    }
    numbers_.emplace(std::string(name), number);
    return number;
  }

  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    if (encoder_.get() == nullptr) begin();
    const Pool pool;
    Object const encoder = encoder_.get();
    message<void, Object>(encoder,
                          "setComputePipelineState:", pipelines_[static_cast<std::size_t>(kernel)].get());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      message<void, Object, std::uint64_t, std::uint64_t>(
          encoder, "setBuffer:offset:atIndex:", buffers[i].buffer->handle, buffers[i].offset, i);
    }
    message<void, const void*, std::uint64_t, std::uint64_t>(encoder, "setBytes:length:atIndex:", args.data(),
                                                             args.size(), buffers.size());
    message<void, Size3, Size3>(encoder,
                                "dispatchThreadgroups:threadsPerThreadgroup:", {grid.x, grid.y, grid.z},
                                {static_cast<std::uint64_t>(threads), 1, 1});
  }

  void finish() override {
    if (encoder_.get() == nullptr) return;
    const Pool pool;
    message<void>(encoder_.get(), "endEncoding");
    message<void>(commands_.get(), "commit");
    message<void>(commands_.get(), "waitUntilCompleted");
    const bool failed = message<std::uint64_t>(commands_.get(), "status") == kStatusError;
    const std::string why = failed ? sentence_of(message<Object>(commands_.get(), "error")) : std::string();
    encoder_ = Owned();
    commands_ = Owned();
    if (failed) throw std::runtime_error("metal backend: the GPU reports: " + why);
  }

  std::int64_t memory_bytes() const override {
    return static_cast<std::int64_t>(message<std::uint64_t>(device_.get(), "recommendedMaxWorkingSetSize"));
  }

 private:
  static double gigabytes(std::uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }
  std::string gpu_name() const { return utf8_of(message<Object>(device_.get(), "name")); }

  /// Exact arithmetic: no fast math. macOS keeps what it compiled, so later starts are quick.
  Status compile_text() {
    const Owned options(message<Object>(message<Object>(class_named("MTLCompileOptions"), "alloc"), "init"));
    const Runtime& runtime = *Runtime::get();
    if (message<bool, void*>(options.get(),
                             "respondsToSelector:", runtime.register_selector("setMathMode:"))) {
      message<void, std::int64_t>(options.get(), "setMathMode:", kMathModeSafe);
      message<void, std::int64_t>(options.get(), "setMathFloatingPointFunctions:", kFunctionsPrecise);
    } else {
      message<void, bool>(options.get(), "setFastMathEnabled:", false);
    }
    Object error = nullptr;
    library_ = Owned(message<Object, Object, Object, Object*>(
        device_.get(), "newLibraryWithSource:options:error:", text_of(kernel_text()), options.get(), &error));
    if (library_.get() != nullptr) return {};
    return Error{Code::kUnsupported, fmt::format("metal backend: {} does not compile the kernels ({}); use "
                                                 "--backend cpu and send `foretoken doctor --json`",
                                                 gpu_name(), sentence_of(error))};
  }

  void begin() {
    const Pool pool;
    commands_ = retained(message<Object>(queue_.get(), "commandBuffer"));
    encoder_ = retained(message<Object>(commands_.get(), "computeCommandEncoder"));
    if (encoder_.get() == nullptr) throw std::runtime_error("metal backend: the GPU takes no commands");
  }
  static Owned retained(Object object) {
    return Owned(object == nullptr ? nullptr : message<Object>(object, "retain"));
  }
  void finish_quietly() {
    try {
      finish();
    } catch (const std::exception&) {  // nobody waits for its results any more
    }
  }

  Owned device_, queue_, library_, commands_, encoder_;
  mutable std::vector<Owned> pipelines_;
  mutable std::map<std::string, int, std::less<>> numbers_;
};

}  // namespace

Result<std::shared_ptr<Device>> open_metal_device() {
  if (Runtime::get() == nullptr) return Error{Code::kNotFound, "metal backend: this Mac has no Metal"};
  auto device = std::make_shared<MetalDevice>();
  FT_TRY(device->open());
  return std::shared_ptr<Device>(std::move(device));
}

}  // namespace ft::metal
