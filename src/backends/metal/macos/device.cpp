// The GPU of a Mac. On Linux it runs against a fake of Metal (device_test.cpp) and is compiled and linked for
// macOS (tools/check --only mac); it has not run on a Mac yet.
#include "backends/metal/macos/device.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <vector>

#include "backends/metal/gpu_facts.h"
#include "backends/metal/kernel_text.h"
#include "backends/metal/macos/objective_c.h"
#include "backends/metal/macos/pipeline_archive.h"

namespace ft::metal {
namespace {

// MTLGPUFamilyApple1 is 1001; one that this list does not know supports those before it.
constexpr std::uint64_t kFamilies = 1000, kOldestFamily = kFamilies + 1, kNewestFamily = kFamilies + 12;
constexpr std::uint64_t kStatusError = 5;  // MTLCommandBufferStatusError
constexpr std::uint64_t kStorageShared = 0;
constexpr std::int64_t kMathModeSafe = 0, kFunctionsPrecise = 1;

class MetalDevice final : public Device {
 public:
  ~MetalDevice() override { finish_quietly(); }

  Status open(const std::string& pipeline_folder) {
    const Pool pool;
    device_ = Owned(Runtime::get()->default_device());
    if (device_.get() == nullptr)
      return Error{Code::kNotFound, "metal backend: this Mac has no GPU for Metal"};
    read_facts();
    FT_TRY(check_family(facts_));
    queue_ = Owned(message<Object>(device_.get(), "newCommandQueue"));
    if (queue_.get() == nullptr) return Error{Code::kIo, "metal backend: the GPU gives no command queue"};
    FT_TRY(compile_text());
    archive_.open(device_.get(), pipeline_folder, kernel_text() + facts_.name);
    return {};
  }

  std::string_view name() const override { return "metal"; }
  std::string describe() const override { return metal::describe(facts_); }

  Result<Buffer> allocate(std::size_t bytes) override {
    const Pool pool;
    const std::uint64_t size = bytes == 0 ? 16 : bytes;
    FT_TRY(check_room(facts_, message<std::uint64_t>(device_.get(), "currentAllocatedSize"), size));
    Buffer buffer;
    buffer.handle = message<Object, std::uint64_t, std::uint64_t>(
        device_.get(), "newBufferWithLength:options:", size, kStorageShared);
    if (buffer.handle == nullptr) {
      return Error{Code::kExhausted, fmt::format("metal backend: the GPU refuses {:.1f} GB; close other "
                                                 "programs or use a smaller model",
                                                 static_cast<double>(size) / 1e9)};
    }
    buffer.data = message<std::byte*>(buffer.handle, "contents");
    buffer.bytes = bytes;
    return buffer;
  }
  Result<Buffer> wrap(std::span<const std::byte> pages) override {
    const Pool pool;
    FT_TRY(check_room(facts_, message<std::uint64_t>(device_.get(), "currentAllocatedSize"), pages.size()));
    Buffer buffer;
    buffer.data = const_cast<std::byte*>(pages.data());
    buffer.bytes = pages.size();
    buffer.handle = message<Object, void*, std::uint64_t, std::uint64_t, Object>(
        device_.get(), "newBufferWithBytesNoCopy:length:options:deallocator:", buffer.data, pages.size(),
        kStorageShared, nullptr);
    if (buffer.handle != nullptr) return buffer;
    return Error{Code::kUnsupported, "metal backend: the GPU does not take the pages of a file"};
  }
  // The command buffer in progress keeps another reference.
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
    Owned pipeline;
    if (function.get() != nullptr) pipeline = pipeline_of(function.get());
    int number = -1;
    if (pipeline.get() != nullptr) {
      number = static_cast<int>(pipelines_.size());
      pipelines_.push_back(std::move(pipeline));
    }
    numbers_.emplace(std::string(name), number);
    return number;
  }

  void keep_pipelines() const override {
    const Pool pool;
    archive_.keep();
  }

  int max_threads(int kernel) const override {
    return static_cast<int>(message<std::uint64_t>(pipelines_[static_cast<std::size_t>(kernel)].get(),
                                                   "maxTotalThreadsPerThreadgroup"));
  }

  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    if (encoder_.get() == nullptr) begin();
    const Pool pool;
    Object const encoder = encoder_.get();
    message<void, Object>(encoder, set_pipeline_, pipelines_[static_cast<std::size_t>(kernel)].get());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      message<void, Object, std::uint64_t, std::uint64_t>(encoder, set_buffer_, buffers[i].buffer->handle,
                                                          buffers[i].offset, i);
    }
    message<void, const void*, std::uint64_t, std::uint64_t>(encoder, set_bytes_, args.data(), args.size(),
                                                             buffers.size());
    message<void, Size3, Size3>(encoder, dispatch_, {grid.x, grid.y, grid.z},
                                {static_cast<std::uint64_t>(threads), 1, 1});
  }

  // The queue runs command buffers in the order of their commits.
  std::int64_t submit() override {
    const std::lock_guard lock(running_mutex_);
    if (encoder_.get() != nullptr) {
      const Pool pool;
      message<void>(encoder_.get(), "endEncoding");
      message<void>(commands_.get(), "commit");
      encoder_ = Owned();
      running_.push_back(std::move(commands_));
    }
    return finished_ + std::ssize(running_);
  }

  void finish() override {
    submit();
    const Pool pool;
    const std::lock_guard lock(running_mutex_);
    std::optional<std::string> why;
    device_ns_ = longest_ns_ = 0;
    for (const Owned& commands : running_) {
      message<void>(commands.get(), "waitUntilCompleted");
      const bool failed = message<std::uint64_t>(commands.get(), "status") == kStatusError;
      if (failed && !why) why = sentence_of(message<Object>(commands.get(), "error"));
      constexpr double kNsOfSecond = 1e9;
      const auto took_ns = static_cast<std::int64_t>(
          (message<double>(commands.get(), "GPUEndTime") - message<double>(commands.get(), "GPUStartTime")) *
          kNsOfSecond);
      device_ns_ += took_ns, longest_ns_ = std::max(longest_ns_, took_ns);
    }
    finished_ += std::ssize(running_);
    running_.clear();
    if (why) throw std::runtime_error("metal backend: the GPU reports: " + *why);
  }

  void wait_for(std::int64_t submission) const override {
    const Pool pool;
    const std::lock_guard lock(running_mutex_);
    const std::int64_t count =
        std::min(submission - finished_, static_cast<std::int64_t>(std::ssize(running_)));
    for (std::int64_t i = 0; i < count; ++i)
      message<void>(running_[static_cast<std::size_t>(i)].get(), "waitUntilCompleted");
  }

  std::int64_t device_ns() const override { return device_ns_; }
  std::int64_t longest_ns() const override { return longest_ns_; }
  std::int64_t memory_bytes() const override { return static_cast<std::int64_t>(facts_.working_set); }

 private:
  void read_facts() {
    facts_.name = utf8_of(message<Object>(device_.get(), "name"));
    for (std::uint64_t family = kOldestFamily; family <= kNewestFamily; ++family) {
      if (message<bool, std::uint64_t>(device_.get(), "supportsFamily:", family))
        facts_.family = static_cast<int>(family - kFamilies);
    }
    facts_.working_set = message<std::uint64_t>(device_.get(), "recommendedMaxWorkingSetSize");
    facts_.max_buffer = message<std::uint64_t>(device_.get(), "maxBufferLength");
  }

  /// Exact arithmetic: no fast math.
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
                                                 facts_.name, sentence_of(error))};
  }

  Owned pipeline_of(Object function) const {
    Owned pipeline = archive_.find(function);
    if (pipeline.get() != nullptr) return pipeline;
    Object error = nullptr;
    pipeline = Owned(message<Object, Object, Object*>(
        device_.get(), "newComputePipelineStateWithFunction:error:", function, &error));
    if (pipeline.get() != nullptr) archive_.add(function);
    return pipeline;
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
    } catch (const std::exception&) {  // its results are not awaited any more
    }
  }

  const Selector set_pipeline_{"setComputePipelineState:"}, set_buffer_{"setBuffer:offset:atIndex:"},
      set_bytes_{"setBytes:length:atIndex:"}, dispatch_{"dispatchThreadgroups:threadsPerThreadgroup:"};
  GpuFacts facts_;
  Owned device_, queue_, library_, commands_, encoder_;
  mutable std::mutex running_mutex_;  // a second thread may wait_for()
  std::vector<Owned> running_;        // submitted, in order
  std::int64_t finished_ = 0;         // submissions before the first of these
  // Times of the launches that the last finish() waited for.
  std::int64_t device_ns_ = 0, longest_ns_ = 0;
  mutable PipelineArchive archive_;
  mutable std::vector<Owned> pipelines_;
  mutable std::map<std::string, int, std::less<>> numbers_;
};

}  // namespace

Result<std::shared_ptr<Device>> open_mac_gpu(const std::string& pipeline_folder) {
  if (Runtime::get() == nullptr) return Error{Code::kNotFound, "metal backend: this Mac has no Metal"};
  auto device = std::make_shared<MetalDevice>();
  FT_TRY(device->open(pipeline_folder));
  return std::shared_ptr<Device>(std::move(device));
}

}  // namespace ft::metal
