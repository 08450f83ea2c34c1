#include "tests/metal_on_cuda/gpu.h"

#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver.h"

namespace ft::metal {
namespace {

constexpr std::size_t kMaxBuffers = 12;

/// The arguments of a kernel of on_cuda/kernels.cu.
struct Given {
  void* buffers[kMaxBuffers];
  unsigned long long args[16];
};

class NvidiaGpu final : public Gpu {
 public:
  Status open(std::span<const char> image) {
    FT_ASSIGN(driver_, cuda::Driver::load());
    int device = 0;
    FT_TRY(good(driver_->cuInit(0), "starting CUDA"));
    FT_TRY(good(driver_->cuDeviceGet(&device, 0), "finding a GPU"));
    driver_->cuDeviceGetName(gpu_, sizeof gpu_, device);
    cuda::Handle context = nullptr;
    FT_TRY(good(driver_->cuDevicePrimaryCtxRetain(&context, device), "opening the GPU"));
    FT_TRY(good(driver_->cuCtxSetCurrent(context), "opening the GPU"));
    FT_TRY(good(driver_->cuStreamCreate(&stream_, 0), "making a stream"));
    FT_TRY(good(driver_->cuModuleLoadData(&module_, image.data()), "loading the kernels"));
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    allocate_managed_ = reinterpret_cast<Allocate>(::dlsym(library, "cuMemAllocManaged"));
    if (allocate_managed_ == nullptr)
      return Error{Code::kUnsupported, "metal on CUDA: this driver has no managed memory"};
    std::size_t all = 0;
    return good(driver_->cuMemGetInfo(&free_bytes_, &all), "asking for the free memory");
  }

  std::string_view name() const override { return "metal-on-cuda"; }
  std::string describe() const override { return gpu_; }
  Result<Buffer> allocate(std::size_t bytes) override {
    constexpr unsigned kGlobal = 1;
    if (taken_bytes_ + bytes > free_bytes_ / 2)
      return Error{Code::kUnsupported,
                   fmt::format("metal on CUDA: {} bytes are more than half of the {} that "
                               "the GPU had free",
                               taken_bytes_ + bytes, free_bytes_)};
    Buffer buffer;
    cuda::Address address = 0;
    FT_TRY(good(allocate_managed_(&address, bytes == 0 ? 16 : bytes, kGlobal), "taking memory"));
    buffer.handle = buffer.data = reinterpret_cast<std::byte*>(address);
    buffer.bytes = bytes;
    taken_bytes_ += bytes;
    std::memset(buffer.data, 0, bytes);
    return buffer;
  }
  Result<Buffer> wrap(std::span<const std::byte>) override {
    return Error{Code::kUnsupported, "metal on CUDA: it maps no files"};
  }
  void release(Buffer& buffer) override {
    if (buffer.handle != nullptr) {
      driver_->cuMemFree(reinterpret_cast<cuda::Address>(buffer.handle));
      taken_bytes_ -= buffer.bytes;
    }
    buffer = {};
  }
  int kernel(std::string_view name) const override {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    cuda::Handle function = nullptr;
    int number = -1;
    if (driver_->cuModuleGetFunction(&function, module_, fmt::format("run_{}", name).c_str()) == 0) {
      number = static_cast<int>(functions_.size());
      functions_.push_back(function);
    }
    numbers_.emplace(std::string(name), number);
    return number;
  }
  int max_threads(int) const override { return 1024; }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    Given given{};
    for (std::size_t i = 0; i < buffers.size(); ++i) given.buffers[i] = buffers[i].data();
    std::memcpy(given.args, args.data(), args.size());
    void* parameters[] = {&given};
    const cuda::LaunchConfig config{grid.x,  grid.y,  grid.z, static_cast<unsigned>(threads), 1, 1, 0,
                                    stream_, nullptr, 0};
    const cuda::Handle function = functions_[static_cast<std::size_t>(kernel)];
    require(driver_->cuLaunchKernelEx(&config, function, parameters, nullptr), "a launch");
    if (!recording_) require(driver_->cuStreamSynchronize(stream_), "a kernel");
  }
  void time_next_step() override {
    constexpr int kRelaxed = 2;  // memory may grow meanwhile
    require(driver_->cuStreamBeginCapture(stream_, kRelaxed), "recording");
    recording_ = true;
  }
  std::int64_t submit() override { return 0; }
  void wait_for(std::int64_t) const override {}
  void finish() override {
    if (!std::exchange(recording_, false)) return;
    cuda::Handle graph = nullptr, ready = nullptr;
    require(driver_->cuStreamEndCapture(stream_, &graph), "recording");
    require(driver_->cuGraphInstantiateWithFlags(&ready, graph, 0), "making a graph");
    microseconds_ = time_of(ready);
    driver_->cuGraphExecDestroy(ready);
    driver_->cuGraphDestroy(graph);
  }
  double microseconds() const override { return microseconds_; }
  std::int64_t device_ns() const override { return static_cast<std::int64_t>(microseconds_ * 1e3); }
  std::int64_t memory_bytes() const override { return 0; }

 private:
  /// The mean of many replays, after some that bring the memory to the GPU.
  double time_of(cuda::Handle graph) {
    constexpr int kWarm = 5, kTimes = 30;
    constexpr unsigned kWithTime = 0;
    cuda::Handle begin = nullptr, end = nullptr;
    require(driver_->cuEventCreate(&begin, kWithTime), "an event");
    require(driver_->cuEventCreate(&end, kWithTime), "an event");
    for (int i = 0; i < kWarm + kTimes; ++i) {
      if (i == kWarm) require(driver_->cuEventRecord(begin, stream_), "an event");
      require(driver_->cuGraphLaunch(graph, stream_), "a graph");
    }
    require(driver_->cuEventRecord(end, stream_), "an event");
    require(driver_->cuStreamSynchronize(stream_), "a graph");
    float milliseconds = 0;
    require(driver_->cuEventElapsedTime(&milliseconds, begin, end), "an event");
    driver_->cuEventDestroy(begin);
    driver_->cuEventDestroy(end);
    return milliseconds * 1e3 / kTimes;
  }

  using Allocate = int (*)(cuda::Address*, std::size_t, unsigned);

  Status good(int status, const char* what) const {
    if (status == 0) return {};
    const char* text = nullptr;
    driver_->cuGetErrorString(status, &text);
    return Error{Code::kIo, fmt::format("metal on CUDA: {} failed: {} ({})", what,
                                        text == nullptr ? "unknown error" : text, status)};
  }
  void require(int status, const char* what) const {
    if (status != 0) throw std::runtime_error(good(status, what).error().message);
  }

  const cuda::Driver* driver_ = nullptr;
  char gpu_[128] = {};
  cuda::Handle stream_ = nullptr, module_ = nullptr;
  Allocate allocate_managed_ = nullptr;
  std::size_t free_bytes_ = 0, taken_bytes_ = 0;  // managed memory beyond the GPU's own can hang it
  bool recording_ = false;
  double microseconds_ = 0;
  mutable std::vector<cuda::Handle> functions_;
  mutable std::map<std::string, int, std::less<>> numbers_;
};

}  // namespace

Result<std::shared_ptr<Gpu>> open_gpu(std::span<const char> image) {
  auto gpu = std::make_shared<NvidiaGpu>();
  FT_TRY(gpu->open(image));
  return std::shared_ptr<Gpu>(std::move(gpu));
}

}  // namespace ft::metal
