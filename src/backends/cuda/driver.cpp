#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <string>

namespace ft::cuda {
namespace {

// The signatures in the table are this version's.
constexpr int kInterface = 12040;
constexpr int kOldest = 12030;  // graphs with dependent launches

constexpr const char* kPlaces[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                   "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
                                   "/usr/lib/wsl/lib/libcuda.so.1"};

void* open_library() {
  for (const char* place : kPlaces) {
    if (void* const library = dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

using Find = int (*)(const char* name, void** function, int version, std::uint64_t flags, void* status);

Status fill(Driver& driver, Find find) {
  std::string missing;
  const auto take = [&](auto& function, const char* name) {
    void* address = nullptr;
    if (find(name, &address, kInterface, 0, nullptr) != 0 || address == nullptr) {
      missing = name;
      return;
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define FT_TAKE(name) take(driver.name, #name)
  FT_TAKE(cuInit), FT_TAKE(cuDriverGetVersion), FT_TAKE(cuGetErrorString), FT_TAKE(cuDeviceGetCount);
  FT_TAKE(cuDeviceGet), FT_TAKE(cuDeviceGetName), FT_TAKE(cuDeviceGetAttribute);
  FT_TAKE(cuDevicePrimaryCtxRetain), FT_TAKE(cuDevicePrimaryCtxRelease), FT_TAKE(cuCtxSetCurrent);
  FT_TAKE(cuMemGetInfo), FT_TAKE(cuMemAlloc), FT_TAKE(cuMemFree), FT_TAKE(cuMemHostAlloc);
  FT_TAKE(cuMemFreeHost), FT_TAKE(cuMemcpyHtoDAsync), FT_TAKE(cuMemcpyDtoHAsync);
  FT_TAKE(cuMemcpyDtoDAsync), FT_TAKE(cuMemsetD8Async), FT_TAKE(cuStreamCreate), FT_TAKE(cuStreamDestroy);
  FT_TAKE(cuStreamSynchronize), FT_TAKE(cuStreamQuery), FT_TAKE(cuEventCreate), FT_TAKE(cuEventRecord);
  FT_TAKE(cuEventRecordWithFlags), FT_TAKE(cuEventQuery);
  FT_TAKE(cuEventElapsedTime), FT_TAKE(cuEventDestroy), FT_TAKE(cuStreamBeginCapture),
      FT_TAKE(cuStreamEndCapture);
  FT_TAKE(cuGraphInstantiateWithFlags), FT_TAKE(cuGraphLaunch), FT_TAKE(cuGraphDestroy);
  FT_TAKE(cuGraphExecDestroy), FT_TAKE(cuModuleLoadData), FT_TAKE(cuModuleUnload);
  FT_TAKE(cuModuleGetFunction), FT_TAKE(cuFuncSetAttribute), FT_TAKE(cuFuncGetAttribute),
      FT_TAKE(cuLaunchKernelEx);
  FT_TAKE(cuOccupancyMaxActiveClusters);
#undef FT_TAKE
  if (missing.empty()) return {};
  return Error{Code::kUnsupported,
               fmt::format("cuda backend: NVIDIA's driver lacks {}; install a driver for CUDA {}.{} or newer",
                           missing, kOldest / 1000, kOldest % 1000 / 10)};
}

Result<const Driver*> load_once() {
  void* const library = open_library();
  if (library == nullptr) {
    std::string places;
    for (const char* place : kPlaces) places += fmt::format("{}{}", places.empty() ? "" : ", ", place);
    return Error{
        Code::kNotFound,
        fmt::format(
            "cuda backend: NVIDIA's driver was not found (looked for {}); install it, or use --backend cpu",
            places)};
  }
  const auto find = reinterpret_cast<Find>(dlsym(library, "cuGetProcAddress_v2"));
  const auto version_of = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (version_of != nullptr) version_of(&version);
  if (find == nullptr || version < kOldest) {
    return Error{
        Code::kUnsupported,
        fmt::format("cuda backend: NVIDIA's driver is for CUDA {}.{}, this build needs {}.{}; install a "
                    "newer driver, or use --backend cpu",
                    version / 1000, version % 1000 / 10, kOldest / 1000, kOldest % 1000 / 10)};
  }
  static Driver driver{};
  FT_TRY(fill(driver, find));
  return &driver;
}

}  // namespace

Result<const Driver*> Driver::load() {
  static const Result<const Driver*> loaded = load_once();
  return loaded;
}

}  // namespace ft::cuda
