#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_images.h"
#include "base/clock.h"
#include "program/backend.h"

namespace ft::cuda {
namespace {

constexpr int kOldestCapability = 80;

std::string sentence(const Driver& driver, const char* what, int status) {
  const char* text = nullptr;
  driver.cuGetErrorString(status, &text);
  return fmt::format("cuda backend: {} failed: {} ({})", what, text == nullptr ? "unknown error" : text,
                     status);
}

/// After these errors every later call fails too: the context is gone. They are the errors that the driver's
/// manual lists, a card that has fallen off the bus, and an error that the driver itself does not know.
bool is_final(int status) {
  switch (status) {
    case 4:    // CUDA_ERROR_DEINITIALIZED
    case 46:   // CUDA_ERROR_DEVICE_UNAVAILABLE
    case 100:  // CUDA_ERROR_NO_DEVICE
    case 201:  // CUDA_ERROR_INVALID_CONTEXT
    case 214:  // CUDA_ERROR_ECC_UNCORRECTABLE
    case 220:  // CUDA_ERROR_NVLINK_UNCORRECTABLE
    case 700:  // CUDA_ERROR_ILLEGAL_ADDRESS
    case 702:  // CUDA_ERROR_LAUNCH_TIMEOUT
    case 709:  // CUDA_ERROR_CONTEXT_IS_DESTROYED
    case 710:  // CUDA_ERROR_ASSERT
    case 999:  // CUDA_ERROR_UNKNOWN
      return true;
    default:
      return status >= 714 && status <= 721;  // traps of kernels: instructions, addresses, launches
  }
}

constexpr std::int64_t kSpinNs = 20'000'000;  // a longer wait sleeps between two checks

constexpr std::size_t kStagingBytes = std::size_t{4} << 20;  // half of the memory that reads go through

class CudaGraph final : public Graph {
 public:
  CudaGraph(const Driver& driver, Handle graph, const std::atomic<bool>& lost)
      : driver_(driver), graph_(graph), lost_(lost) {}
  ~CudaGraph() override {
    if (!lost_) driver_.cuGraphExecDestroy(graph_);
  }
  Handle handle() const { return graph_; }

 private:
  const Driver& driver_;
  Handle graph_;
  const std::atomic<bool>& lost_;  // of the device
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& driver, int device, std::int64_t patience_ms)
      : driver_(driver), device_(device), patience_ns_(patience_ms * 1'000'000) {}
  ~CudaDevice() override {
    if (context_ == nullptr || lost_) return;  // a lost one would never answer; the process ends soon
    driver_.cuCtxSetCurrent(context_);
    for (Handle stream : {stream_, copies_}) {
      if (stream != nullptr) driver_.cuStreamSynchronize(stream), driver_.cuStreamDestroy(stream);
    }
    for (Handle event : {settled_, arrived_[0], arrived_[1]}) {
      if (event != nullptr) driver_.cuEventDestroy(event);
    }
    if (staging_ != nullptr) driver_.cuMemFreeHost(staging_);
    for (Handle event : stamps_) driver_.cuEventDestroy(event);
    for (Handle module : modules_) driver_.cuModuleUnload(module);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  Status open(std::span<const std::byte> kernels) {
    char name[128] = {};
    int major = 0, minor = 0, version = 0;
    driver_.cuDeviceGetName(name, sizeof name, device_);
    driver_.cuDeviceGetAttribute(&major, kMajor, device_);
    driver_.cuDeviceGetAttribute(&minor, kMinor, device_);
    driver_.cuDeviceGetAttribute(&facts_.processors, kMultiprocessors, device_);
    driver_.cuDeviceGetAttribute(&facts_.shared_bytes, kSharedBytesOptIn, device_);
    driver_.cuDriverGetVersion(&version);
    facts_.name = name;
    facts_.graphs = true;
    facts_.capability = major * 10 + minor;
    facts_.architecture = fmt::format("sm_{}", facts_.capability);
    facts_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
    if (facts_.capability < kOldestCapability) {
      return Error{Code::kUnsupported,
                   fmt::format("cuda backend: {} is {}; it needs sm_{} or later, use --backend cpu",
                               facts_.name, facts_.architecture, kOldestCapability)};
    }
    FT_TRY(good(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "opening the GPU"));
    FT_TRY(good(driver_.cuCtxSetCurrent(context_), "opening the GPU"));
    FT_TRY(good(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "making a stream"));
    return load_kernels(kernels);
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::int64_t free_bytes() const override { return memory().free; }
  std::int64_t total_bytes() const override { return memory().total; }
  double copy_gb_per_s() override {
    constexpr std::size_t kBytes = std::size_t{512} << 20;
    constexpr int kTimes = 8;
    const std::lock_guard lock(mutex_);
    void* const memory = allocate(2 * kBytes);
    if (memory == nullptr) return 0;
    Handle begin = nullptr, end = nullptr;
    require(driver_.cuEventCreate(&begin, 0), "measuring");
    require(driver_.cuEventCreate(&end, 0), "measuring");
    for (int i = 0; i <= kTimes; ++i) {
      if (i == 1) require(driver_.cuEventRecord(begin, stream_), "measuring");  // the first one warms up
      copy(static_cast<std::byte*>(memory) + kBytes, memory, kBytes);
    }
    require(driver_.cuEventRecord(end, stream_), "measuring");
    wait();
    float ms = 0;
    require(driver_.cuEventElapsedTime(&ms, begin, end), "measuring");
    driver_.cuEventDestroy(begin), driver_.cuEventDestroy(end);
    release(memory);
    return ms > 0 ? 2.0 * kBytes * kTimes / ms * 1e-6 : 0;
  }

  void* allocate(std::size_t bytes) override {
    bind();
    Address address = 0;
    const int status = driver_.cuMemAlloc(&address, std::max<std::size_t>(bytes, 1));
    if (status == kOutOfMemory) return nullptr;
    require(status, "allocating memory");
    return reinterpret_cast<void*>(address);
  }
  void release(void* memory) override {
    if (lost_) return;
    bind();
    driver_.cuMemFree(reinterpret_cast<Address>(memory));
  }
  void* allocate_host(std::size_t bytes) override {
    bind();
    void* memory = nullptr;
    return driver_.cuMemHostAlloc(&memory, std::max<std::size_t>(bytes, 1), 0) == 0 ? memory : nullptr;
  }
  void release_host(void* memory) override {
    if (lost_) return;
    bind();
    driver_.cuMemFreeHost(memory);
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    bind_for_copy();
    require(driver_.cuMemcpyHtoDAsync(reinterpret_cast<Address>(to), from, bytes, stream_),
            "copying to the GPU");
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    bind_for_copy();
    require(driver_.cuMemcpyDtoHAsync(to, reinterpret_cast<Address>(from), bytes, stream_),
            "copying from the GPU");
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    bind_for_copy();
    require(driver_.cuMemcpyDtoDAsync(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes,
                                      stream_),
            "copying on the GPU");
  }
  void clear(void* to, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    bind_for_copy();
    require(driver_.cuMemsetD8Async(reinterpret_cast<Address>(to), 0, bytes, stream_), "clearing memory");
  }
  void wait() override {
    if (lost_) throw BackendLost(why_lost_);
    const std::lock_guard lock(mutex_);
    bind();
    wait_until([this] { return driver_.cuStreamQuery(stream_); }, kSpinNs);
  }
  void settle() override {
    const std::lock_guard one(second_mutex_);
    {
      const std::lock_guard lock(mutex_);  // no event may come into a recording
      bind_for_copy();
      make_event(settled_);
      require(driver_.cuEventRecord(settled_, stream_), "reading the GPU's memory");
    }
    wait_until([this] { return driver_.cuEventQuery(settled_); }, 0);
  }
  void read_settled(void* to, const void* from, std::size_t bytes) override {
    const std::lock_guard one(second_mutex_);
    if (lost_) throw BackendLost(why_lost_);
    bind();
    if (copies_ == nullptr) require(driver_.cuStreamCreate(&copies_, kStreamNonBlocking), "making a stream");
    for (Handle& event : arrived_) make_event(event);
    if (staging_ == nullptr) staging_ = static_cast<std::byte*>(allocate_host(2 * kStagingBytes));
    if (staging_ == nullptr) return read_part(to, from, bytes, 0), wait_for_part(0);  // slower
    const auto size = [&](std::size_t at) { return std::min(kStagingBytes, bytes - at); };
    const auto read = [&](std::size_t at) {
      const std::size_t half = at / kStagingBytes % 2;
      if (at < bytes)
        read_part(staging_ + half * kStagingBytes, static_cast<const std::byte*>(from) + at, size(at), half);
    };
    read(0);
    for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
      const std::size_t half = at / kStagingBytes % 2;
      read(at + kStagingBytes);
      wait_for_part(half);
      std::memcpy(static_cast<std::byte*>(to) + at, staging_ + half * kStagingBytes, size(at));
    }
  }

  void launch(const Launch& launch, const void* args) override {
    if (lost_) throw BackendLost(why_lost_);
    bind();
    Handle function = function_of(launch.kernel);
    LaunchAttribute dependent{};
    dependent.id = kProgrammaticSerialisation;
    dependent.value.number = 1;
    const bool early = launch.dependent && launched_ && facts_.capability >= 90;
    launched_ = !launch.fence;
    LaunchConfig config = config_of(launch);
    if (early) config.attributes = &dependent, config.attribute_count = 1;
    void* parameters[] = {const_cast<void*>(args)};  // NOLINT(*-const-cast): the driver only reads
    require(driver_.cuLaunchKernelEx(&config, function, parameters, nullptr), launch.kernel);
    ++launches_;
  }
  int clusters(const Launch& launch) override {
    const auto [place, fresh] = clusters_.try_emplace({launch.kernel, launch.shared_bytes}, 0);
    if (!fresh || facts_.capability < 90) return place->second;
    bind();
    const LaunchConfig config = config_of(launch);
    require(driver_.cuOccupancyMaxActiveClusters(&place->second, function_of(launch.kernel), &config),
            launch.kernel);
    return place->second;
  }
  void begin_graph() override {
    mutex_.lock();  // no copy of another thread may enter the recording
    bind_for_copy();
    const int status = driver_.cuStreamBeginCapture(stream_, kCaptureThreadLocal);
    if (status != 0) mutex_.unlock();
    require(status, "recording a graph");
    recording_ = true;
  }
  std::unique_ptr<Graph> end_graph() override {
    Handle graph = nullptr, instance = nullptr;
    recording_ = false;
    const int ended = driver_.cuStreamEndCapture(stream_, &graph);
    mutex_.unlock();
    require(ended, "recording a graph");
    const int status = driver_.cuGraphInstantiateWithFlags(&instance, graph, 0);
    driver_.cuGraphDestroy(graph);
    require(status, "preparing a graph");
    return std::make_unique<CudaGraph>(driver_, instance, lost_);
  }
  void launch(Graph& graph) override {
    if (lost_) throw BackendLost(why_lost_);
    bind();
    launched_ = false;
    require(driver_.cuGraphLaunch(static_cast<CudaGraph&>(graph).handle(), stream_), "launching a graph");
  }
  void stamp(int number) override {
    bind_for_copy();
    while (static_cast<int>(stamps_.size()) <= number) {
      Handle event = nullptr;
      require(driver_.cuEventCreate(&event, 0), "measuring");
      stamps_.push_back(event);
    }
    const Handle event = stamps_[static_cast<std::size_t>(number)];
    require(driver_.cuEventRecordWithFlags(event, stream_, recording_ ? kEventOfAGraph : 0), "measuring");
  }
  double stamp_ns(int number) override {
    bind();
    float ms = 0;
    require(driver_.cuEventElapsedTime(&ms, stamps_[0], stamps_[static_cast<std::size_t>(number)]),
            "measuring");
    return ms * 1e6;
  }

 private:
  /// Polls without a pause for `spin_ns`, then sleeps between two checks.
  template <class Query>
  void wait_until(const Query& query, std::int64_t spin_ns) const {
    const std::int64_t begin_ns = steady_ns();
    for (;;) {
      const int status = query();
      if (status != kNotReady) return require(status, "a step");
      const std::int64_t waited_ns = steady_ns() - begin_ns;
      if (waited_ns > patience_ns_)
        lose(fmt::format("cuda backend: a step has not ended after {} s",
                         static_cast<double>(patience_ns_) * 1e-9));
      if (waited_ns > spin_ns) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  void make_event(Handle& event) {
    if (event == nullptr) require(driver_.cuEventCreate(&event, kEventWithoutTime), "making an event");
  }
  void read_part(void* to, const void* from, std::size_t bytes, std::size_t half) {
    require(driver_.cuMemcpyDtoHAsync(to, reinterpret_cast<Address>(from), bytes, copies_),
            "copying from the GPU");
    require(driver_.cuEventRecord(arrived_[half], copies_), "copying from the GPU");
  }
  void wait_for_part(std::size_t half) {
    wait_until([&] { return driver_.cuEventQuery(arrived_[half]); }, 0);
  }
  /// Each thread has its own current context.
  void bind() const {
    thread_local Handle current = nullptr;
    if (current == context_) return;
    driver_.cuCtxSetCurrent(context_);
    current = context_;
  }
  /// Work after a copy begins once the copy has ended.
  void bind_for_copy() {
    if (lost_) throw BackendLost(why_lost_);
    bind();
    launched_ = false;
  }
  Status good(int status, const char* what) const {
    if (status == 0) return {};
    return Error{Code::kUnsupported, sentence(driver_, what, status)};
  }
  void require(int status, const char* what) const {
    if (status == 0) return;
    if (is_final(status)) lose(sentence(driver_, what, status));
    throw DeviceError(sentence(driver_, what, status));
  }
  /// No call after this one reaches the driver: some would wait for ever.
  [[noreturn]] void lose(const std::string& why) const {
    const std::lock_guard lock(lost_mutex_);
    if (!lost_) why_lost_ = why;
    lost_ = true;
    throw BackendLost(why_lost_);
  }
  struct Sizes {
    std::int64_t free = 0, total = 0;
  };
  Sizes memory() const {
    if (lost_) return {};
    bind();
    std::size_t free = 0, total = 0;
    driver_.cuMemGetInfo(&free, &total);
    return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
  }

  Status load_kernels(std::span<const std::byte> kernels) {
    const std::vector<KernelImage> images = choose_images(read_images(kernels), facts_.capability);
    if (images.empty()) {
      return Error{
          Code::kUnsupported,
          fmt::format("cuda backend: this build has no kernels for {} ({}); run tools/setup cuda and "
                      "build again, or use --backend cpu",
                      facts_.name, facts_.architecture)};
    }
    for (const KernelImage& image : images) {
      Handle module = nullptr;
      FT_TRY(good(driver_.cuModuleLoadData(&module, image.bytes.data()), "loading kernels"));
      modules_.push_back(module);
      if (image.source.starts_with("hopper_")) facts_.streams = true;
      if (image.source.starts_with("sm90_")) facts_.async_products = true;
    }
    return {};
  }

  LaunchConfig config_of(const Launch& launch) const {
    return {static_cast<unsigned>(launch.grid.x),
            static_cast<unsigned>(launch.grid.y),
            static_cast<unsigned>(launch.grid.z),
            static_cast<unsigned>(launch.threads),
            1,
            1,
            static_cast<unsigned>(launch.shared_bytes),
            stream_,
            nullptr,
            0};
  }
  Handle function_of(const char* kernel) {
    Handle& function = functions_[kernel];
    if (function == nullptr) function = find(kernel);
    return function;
  }
  Handle find(const char* kernel) {
    Handle function = nullptr;
    for (Handle module : modules_) {
      if (driver_.cuModuleGetFunction(&function, module, kernel) != 0) continue;
      allow_shared(function);
      return function;
    }
    throw DeviceError(fmt::format("cuda backend: this build lacks the kernel {}", kernel));
  }
  /// Allows all shared memory that the GPU gives a block, less the kernel's static part.
  void allow_shared(Handle function) const {
    int own = 0;
    driver_.cuFuncGetAttribute(&own, kFunctionStaticShared, function);
    require(driver_.cuFuncSetAttribute(function, kFunctionSharedBytes, facts_.shared_bytes - own),
            "a kernel");
    // An SM whose cache is divided otherwise must be idle before a kernel can begin on it.
    require(driver_.cuFuncSetAttribute(function, kFunctionCarveout, 100), "a kernel");
  }

  const Driver& driver_;
  int device_;
  Handle context_ = nullptr, stream_ = nullptr;
  std::vector<Handle> modules_;
  std::map<const char*, Handle> functions_;
  std::map<std::pair<const char*, int>, int> clusters_;  // of a kernel and its shared memory
  std::recursive_mutex mutex_;                           // copies of a second thread, and recording
  std::mutex second_mutex_;                              // settle() and read_settled(), and these:
  Handle copies_ = nullptr, settled_ = nullptr;          // a stream, an event
  std::array<Handle, 2> arrived_{};                      // events: a half of the staging memory is full
  std::byte* staging_ = nullptr;                         // [2 * kStagingBytes], pinned
  std::atomic<bool> launched_ = false;                   // a kernel, since the last copy
  bool recording_ = false;                               // a graph
  std::vector<Handle> stamps_;                           // events
  std::int64_t patience_ns_;
  mutable std::mutex lost_mutex_;
  mutable std::atomic<bool> lost_ = false;
  mutable std::string why_lost_;  // written once, before lost_
  DeviceFacts facts_;
};

}  // namespace

Error no_memory(const Device& device, const char* what, std::int64_t bytes, const char* repair) {
  return Error{Code::kExhausted,
               fmt::format("cuda backend: no memory for {:.2f} GB of {} on {} ({:.2f} GB are free); {}",
                           static_cast<double>(bytes) * 1e-9, what, device.facts().name,
                           static_cast<double>(device.free_bytes()) * 1e-9, repair)};
}

Result<std::shared_ptr<Device>> open_device(const DeviceChoice& choice) {
  if (kernel_bytes().empty()) {
    return Error{
        Code::kNotFound,
        "cuda backend: this build has no CUDA kernels (NVRTC was not found); run tools/setup cuda and "
        "build again, or use --backend cpu"};
  }
  FT_ASSIGN(const Driver* driver, Driver::load());
  return open_device(choice, *driver, kernel_bytes());
}

Result<std::shared_ptr<Device>> open_device(const DeviceChoice& choice, const Driver& driver,
                                            std::span<const std::byte> images) {
  if (const int status = driver.cuInit(0); status != 0) {
    return Error{status == kNoDevice ? Code::kNotFound : Code::kUnsupported,
                 sentence(driver, "starting NVIDIA's driver", status) + "; use --backend cpu"};
  }
  int count = 0, handle = 0;
  driver.cuDeviceGetCount(&count);
  if (choice.number >= count || driver.cuDeviceGet(&handle, choice.number) != 0) {
    return Error{count == 0 ? Code::kNotFound : Code::kInvalid,
                 fmt::format("cuda backend: found {} GPU{}, but --device is {} (the first is 0); choose "
                             "another --device, or use --backend cpu",
                             count, count == 1 ? "" : "s", choice.number)};
  }
  auto device = std::make_shared<CudaDevice>(driver, handle, choice.patience_ms);
  FT_TRY(device->open(images));
  return std::static_pointer_cast<Device>(std::move(device));
}

}  // namespace ft::cuda
