// NVIDIA's driver by name: libcuda is opened when a backend starts, so that one program runs with and without
// it and is built without NVIDIA's headers. Types and numbers are from its ABI. Thread: any. Errors: load()
// names the places where it looked, or the function that the driver is too old for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace ft::cuda {

using Handle = void*;                // CUcontext, CUstream, CUmodule, CUfunction, CUgraph, CUgraphExec
using Address = unsigned long long;  // CUdeviceptr

/// CUlaunchAttribute: an identifier, padding to 8 bytes, a value of 64 bytes.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int number;
  } value;
};
inline constexpr int kProgrammaticSerialisation = 6;

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Handle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

enum DeviceAttribute : int {
  kMultiprocessors = 16,
  kMajor = 75,
  kMinor = 76,
  kSharedBytesOptIn = 97,
};
inline constexpr int kFunctionStaticShared = 1;  // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
inline constexpr int kFunctionSharedBytes = 8;   // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int kFunctionCarveout = 9;      // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
inline constexpr int kOutOfMemory = 2;           // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr int kNoDevice = 100;            // CUDA_ERROR_NO_DEVICE
inline constexpr int kNotReady = 600;            // CUDA_ERROR_NOT_READY
inline constexpr int kCaptureThreadLocal = 1;    // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventWithoutTime = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kEventOfAGraph = 1;     // CU_EVENT_RECORD_EXTERNAL

struct Driver {
  int (*cuInit)(unsigned);
  int (*cuDriverGetVersion)(int*);
  int (*cuGetErrorString)(int, const char**);
  int (*cuDeviceGetCount)(int*);
  int (*cuDeviceGet)(int*, int);
  int (*cuDeviceGetName)(char*, int, int);
  int (*cuDeviceGetAttribute)(int*, int, int);
  int (*cuDevicePrimaryCtxRetain)(Handle*, int);
  int (*cuDevicePrimaryCtxRelease)(int);
  int (*cuCtxSetCurrent)(Handle);
  int (*cuMemGetInfo)(std::size_t*, std::size_t*);
  int (*cuMemAlloc)(Address*, std::size_t);
  int (*cuMemFree)(Address);
  int (*cuMemHostAlloc)(void**, std::size_t, unsigned);
  int (*cuMemFreeHost)(void*);
  int (*cuMemcpyHtoDAsync)(Address, const void*, std::size_t, Handle);
  int (*cuMemcpyDtoHAsync)(void*, Address, std::size_t, Handle);
  int (*cuMemcpyDtoDAsync)(Address, Address, std::size_t, Handle);
  int (*cuMemsetD8Async)(Address, unsigned char, std::size_t, Handle);
  int (*cuStreamCreate)(Handle*, unsigned);
  int (*cuStreamDestroy)(Handle);
  int (*cuStreamSynchronize)(Handle);
  int (*cuStreamQuery)(Handle);
  int (*cuEventCreate)(Handle*, unsigned);
  int (*cuEventRecord)(Handle, Handle);
  int (*cuEventRecordWithFlags)(Handle, Handle, unsigned);
  int (*cuEventQuery)(Handle);
  int (*cuEventElapsedTime)(float*, Handle, Handle);
  int (*cuEventDestroy)(Handle);
  int (*cuStreamBeginCapture)(Handle, int);
  int (*cuStreamEndCapture)(Handle, Handle*);
  int (*cuGraphInstantiateWithFlags)(Handle*, Handle, unsigned long long);
  int (*cuGraphLaunch)(Handle, Handle);
  int (*cuGraphDestroy)(Handle);
  int (*cuGraphExecDestroy)(Handle);
  int (*cuModuleLoadData)(Handle*, const void*);
  int (*cuModuleUnload)(Handle);
  int (*cuModuleGetFunction)(Handle*, Handle, const char*);
  int (*cuFuncSetAttribute)(Handle, int, int);
  int (*cuFuncGetAttribute)(int*, int, Handle);
  int (*cuLaunchKernelEx)(const LaunchConfig*, Handle, void**, void**);
  int (*cuOccupancyMaxActiveClusters)(int*, Handle, const LaunchConfig*);

  /// The driver of this machine, opened once.
  static Result<const Driver*> load();
};

}  // namespace ft::cuda
