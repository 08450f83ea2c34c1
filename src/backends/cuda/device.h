// A GPU as the backend sees it: memory, one stream on which everything happens in order except
// read_settled(), kernels by name, graphs. cuda_device.cpp uses NVIDIA's driver, emulator/ the C++ compiler.
// Copies and launches return before they are done; wait() waits for all of them. Thread: one at a time;
// copies and wait() from any thread, also while another one records a graph. Errors: DeviceError, and
// BackendLost where no later call can succeed; allocate() returns null where no memory is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "base/result.h"

namespace ft::cuda {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Grid {
  int x = 1, y = 1, z = 1;
};

/// The parameters of a launch, other than its arguments.
struct Launch {
  const char* kernel = nullptr;  // its name; text that lives for ever
  Grid grid;
  int threads = 0;
  int shared_bytes = 0;   // dynamic
  bool dependent = true;  // may begin before the launch before it has ended; the kernel waits itself
  bool fence = false;     // the launch after it begins when it has ended
};

struct DeviceFacts {
  std::string name;             // "NVIDIA H100 80GB HBM3"
  std::string architecture;     // "sm_90"
  std::string driver;           // "12.9"
  int capability = 0;           // 90
  int processors = 0;           // multiprocessors
  int shared_bytes = 0;         // that a block may have
  bool streams = false;         // it has the bulk copies of Hopper and later
  bool async_products = false;  // it has the asynchronous matrix instruction of sm_90
  bool graphs = false;
};

/// A list of launches and copies that is launched as one.
class Graph {
 public:
  virtual ~Graph() = default;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  virtual std::int64_t free_bytes() const = 0;
  virtual std::int64_t total_bytes() const = 0;
  /// Bytes read and written per second by a copy of 512 MB, / 1e9; 0 if the figure would be meaningless.
  virtual double copy_gb_per_s() { return 0; }

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;  // memory of the host that copies are fast from and to
  virtual void release_host(void* memory) = 0;
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* to, std::size_t bytes) = 0;
  virtual void wait() = 0;
  /// Waits for the work queued before this call, while other threads queue more. Any thread.
  virtual void settle() = 0;
  /// Copies out memory that no work queued since settle() writes, by a second stream that does not wait for
  /// the first. Returns when it is done. Any thread.
  virtual void read_settled(void* to, const void* from, std::size_t bytes) = 0;

  virtual void launch(const Launch& launch, const void* args) = 0;
  /// Clusters of a kernel that run at the same time: fewer than the multiprocessors suggest, because the
  /// blocks of a cluster are neighbours. 0: no clusters.
  virtual int clusters(const Launch& /*launch*/) { return 0; }
  /// Records the copies and launches until end_graph() instead of running them; only if facts().graphs.
  virtual void begin_graph() = 0;
  virtual std::unique_ptr<Graph> end_graph() = 0;
  virtual void launch(Graph& graph) = 0;
  /// Records the device's own time when everything before it has ended; in a graph too. `number`: ascending
  /// from 0. The launch after it does not begin early.
  virtual void stamp(int number) = 0;
  /// Nanoseconds from stamp 0 to this one, after a wait for both.
  virtual double stamp_ns(int number) = 0;
  /// Number of launches, recorded ones too.
  std::int64_t launches() const { return launches_; }

 protected:
  std::int64_t launches_ = 0;
};

/// Memory of a device; empty if it had none. Owner: the holder.
template <void* (Device::*take)(std::size_t), void (Device::*give)(void*)>
class MemoryOf {
 public:
  MemoryOf() = default;
  MemoryOf(std::shared_ptr<Device> device, std::size_t bytes)
      : device_(std::move(device)), data_(((*device_).*take)(bytes)), bytes_(bytes) {}
  MemoryOf(MemoryOf&& other) noexcept { *this = std::move(other); }
  MemoryOf& operator=(MemoryOf&& other) noexcept {
    std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryOf() {
    if (data_ != nullptr) ((*device_).*give)(data_);
  }

  bool empty() const { return data_ == nullptr; }
  std::size_t bytes() const { return bytes_; }
  /// Null where there is none.
  template <class T = std::byte>
  T* at(std::int64_t offset_bytes = 0) const {
    if (empty()) return nullptr;
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset_bytes);
  }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};
using Memory = MemoryOf<&Device::allocate, &Device::release>;                // of the device
using HostMemory = MemoryOf<&Device::allocate_host, &Device::release_host>;  // pinned; kernels may read it

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
inline int parts_of(std::int64_t value, std::int64_t unit) {
  return static_cast<int>((value + unit - 1) / unit);
}

/// kExhausted with the required bytes, the free bytes and the next step.
Error no_memory(const Device& device, const char* what, std::int64_t bytes, const char* repair);

struct Driver;

/// The GPU to use, and the time after which a step counts as one that never ends.
struct DeviceChoice {
  int number = 0;
  std::int64_t patience_ms = 60'000;
};

/// A GPU of NVIDIA's driver with this build's kernels. Errors: a sentence for each missing part; kNotFound if
/// this machine has no GPU or no driver, or this build no kernels.
Result<std::shared_ptr<Device>> open_device(const DeviceChoice& choice);
/// The same with a given driver and images (kernel_images.h): tests have their own.
Result<std::shared_ptr<Device>> open_device(const DeviceChoice& choice, const Driver& driver,
                                            std::span<const std::byte> images);

}  // namespace ft::cuda
