#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_images.h"

namespace ft::cuda {
namespace {

constexpr int kOldestCapability = 80;

std::string sentence(const Driver& driver, const char* what, int status) {
  const char* text = nullptr;
  driver.cuGetErrorString(status, &text);
  return fmt::format("cuda backend: {} failed: {} ({})", what, text == nullptr ? "unknown error" : text,
                     status);
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(const Driver& driver, Handle graph) : driver_(driver), graph_(graph) {}
  ~CudaGraph() override { driver_.cuGraphExecDestroy(graph_); }
  Handle handle() const { return graph_; }

 private:
  const Driver& driver_;
  Handle graph_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& driver, int device) : driver_(driver), device_(device) {}
  ~CudaDevice() override {
    if (context_ == nullptr) return;
    driver_.cuCtxSetCurrent(context_);
    if (stream_ != nullptr) driver_.cuStreamSynchronize(stream_), driver_.cuStreamDestroy(stream_);
    for (Handle module : modules_) driver_.cuModuleUnload(module);
    driver_.cuDevicePrimaryCtxRelease(device_);
  }

  Status open() {
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
    return load_kernels();
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::int64_t free_bytes() const override {
    bind();
    std::size_t free = 0, total = 0;
    driver_.cuMemGetInfo(&free, &total);
    return static_cast<std::int64_t>(free);
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
    bind();
    driver_.cuMemFree(reinterpret_cast<Address>(memory));
  }
  void* allocate_host(std::size_t bytes) override {
    bind();
    void* memory = nullptr;
    return driver_.cuMemHostAlloc(&memory, std::max<std::size_t>(bytes, 1), 0) == 0 ? memory : nullptr;
  }
  void release_host(void* memory) override {
    bind();
    driver_.cuMemFreeHost(memory);
  }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    bind_for_copy();
    require(driver_.cuMemcpyHtoDAsync(reinterpret_cast<Address>(to), from, bytes, stream_),
            "copying to the GPU");
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    bind_for_copy();
    require(driver_.cuMemcpyDtoHAsync(to, reinterpret_cast<Address>(from), bytes, stream_),
            "copying from the GPU");
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    bind_for_copy();
    require(driver_.cuMemcpyDtoDAsync(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes,
                                      stream_),
            "copying on the GPU");
  }
  void clear(void* to, std::size_t bytes) override {
    bind_for_copy();
    require(driver_.cuMemsetD8Async(reinterpret_cast<Address>(to), 0, bytes, stream_), "clearing memory");
  }
  void wait() override {
    bind();
    require(driver_.cuStreamSynchronize(stream_), "a step");
  }

  void launch(const Launch& launch, const void* args) override {
    bind();
    Handle& function = functions_[launch.kernel];
    if (function == nullptr) function = find(launch.kernel);
    LaunchAttribute dependent{};
    dependent.id = kProgrammaticSerialisation;
    dependent.value.number = 1;
    const bool early = launch.dependent && launched_ && facts_.capability >= 90;
    launched_ = true;
    const LaunchConfig config{static_cast<unsigned>(launch.grid.x),
                              static_cast<unsigned>(launch.grid.y),
                              static_cast<unsigned>(launch.grid.z),
                              static_cast<unsigned>(launch.threads),
                              1,
                              1,
                              static_cast<unsigned>(launch.shared_bytes),
                              stream_,
                              early ? &dependent : nullptr,
                              early ? 1U : 0U};
    void* parameters[] = {const_cast<void*>(args)};  // NOLINT(*-const-cast): the driver only reads
    require(driver_.cuLaunchKernelEx(&config, function, parameters, nullptr), launch.kernel);
  }
  void begin_graph() override {
    bind_for_copy();
    require(driver_.cuStreamBeginCapture(stream_, kCaptureThreadLocal), "recording a graph");
  }
  std::unique_ptr<Graph> end_graph() override {
    Handle graph = nullptr, instance = nullptr;
    require(driver_.cuStreamEndCapture(stream_, &graph), "recording a graph");
    const int status = driver_.cuGraphInstantiateWithFlags(&instance, graph, 0);
    driver_.cuGraphDestroy(graph);
    require(status, "preparing a graph");
    return std::make_unique<CudaGraph>(driver_, instance);
  }
  void launch(Graph& graph) override {
    bind();
    require(driver_.cuGraphLaunch(static_cast<CudaGraph&>(graph).handle(), stream_), "launching a graph");
  }

 private:
  /// A context is current in each thread by itself.
  void bind() const {
    thread_local Handle current = nullptr;
    if (current == context_) return;
    driver_.cuCtxSetCurrent(context_);
    current = context_;
  }
  /// What follows a copy begins when that has ended.
  void bind_for_copy() {
    bind();
    launched_ = false;
  }
  Status good(int status, const char* what) const {
    if (status == 0) return {};
    return Error{Code::kUnsupported, sentence(driver_, what, status)};
  }
  void require(int status, const char* what) const {
    if (status != 0) throw DeviceError(sentence(driver_, what, status));
  }

  Status load_kernels() {
    const std::vector<KernelImage> images = choose_images(read_images(kernel_bytes()), facts_.capability);
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
    }
    return {};
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
  /// All that the GPU gives a block, less what the kernel has by itself.
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
  bool launched_ = false;  // a kernel, since the last copy
  DeviceFacts facts_;
};

}  // namespace

Error no_memory(const Device& device, const char* what, std::int64_t bytes, const char* mend) {
  return Error{Code::kExhausted,
               fmt::format("cuda backend: no memory for {:.2f} GB of {} on {} ({:.2f} GB are free); {}",
                           static_cast<double>(bytes) * 1e-9, what, device.facts().name,
                           static_cast<double>(device.free_bytes()) * 1e-9, mend)};
}

Result<std::shared_ptr<Device>> open_device(int number) {
  if (kernel_bytes().empty()) {
    return Error{Code::kUnsupported,
                 "cuda backend: this build has none, for it was made without NVRTC; run tools/setup cuda and "
                 "build again, or use --backend cpu"};
  }
  FT_ASSIGN(const Driver* driver, Driver::load());
  int count = 0;
  if (const int status = driver->cuInit(0); status != 0)
    return Error{Code::kUnsupported,
                 sentence(*driver, "starting NVIDIA's driver", status) + "; use --backend cpu"};
  driver->cuDeviceGetCount(&count);
  int handle = 0;
  if (number >= count || driver->cuDeviceGet(&handle, number) != 0) {
    return Error{Code::kUnsupported,
                 fmt::format("cuda backend: found {} GPU{}, wanted number {}; use --backend cpu", count,
                             count == 1 ? "" : "s", number)};
  }
  auto device = std::make_shared<CudaDevice>(*driver, handle);
  FT_TRY(device->open());
  return std::static_pointer_cast<Device>(std::move(device));
}

}  // namespace ft::cuda
