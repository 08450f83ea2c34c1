// A GPU as the backend sees it: memory, one stream on which everything happens in order, kernels by name,
// graphs. cuda_device.cpp uses NVIDIA's driver, emulator/ the C++ compiler. Copies and launches
// return before they are done; wait() waits for all of them. Thread: one at a time; copies and wait() from
// any thread. Errors: DeviceError, except that allocate() returns null where no memory is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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

/// What a launch says beside its arguments.
struct Launch {
  const char* kernel = nullptr;  // its name; text that lives for ever
  Grid grid;
  int threads = 0;
  int shared_bytes = 0;   // dynamic
  bool dependent = true;  // may begin before the launch before it has ended; the kernel waits itself
};

struct DeviceFacts {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string architecture;  // "sm_90"
  std::string driver;        // "12.9"
  int capability = 0;        // 90
  int processors = 0;        // multiprocessors
  int shared_bytes = 0;      // that a block may have
  bool streams = false;      // it has the bulk copies of Hopper and later
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

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual void* allocate_host(std::size_t bytes) = 0;  // memory of the host that copies are fast from and to
  virtual void release_host(void* memory) = 0;
  virtual void copy_in(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* to, std::size_t bytes) = 0;
  virtual void wait() = 0;

  virtual void launch(const Launch& launch, const void* args) = 0;
  /// Between the two, copies and launches are recorded instead of run; where facts().graphs says so.
  virtual void begin_graph() = 0;
  virtual std::unique_ptr<Graph> end_graph() = 0;
  virtual void launch(Graph& graph) = 0;
};

/// Memory of a device. Owner: whoever has it; the device must outlive it.
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<Device> device, std::size_t bytes)
      : device_(std::move(device)), data_(device_->allocate(bytes)), bytes_(bytes) {}
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) device_->release(data_);
  }

  bool empty() const { return data_ == nullptr; }
  std::size_t bytes() const { return bytes_; }
  template <class T = std::byte>
  T* at(std::int64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset_bytes);
  }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The same of host memory.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(std::shared_ptr<Device> device, std::size_t bytes)
      : device_(std::move(device)), data_(device_->allocate_host(bytes)), bytes_(bytes) {}
  HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(device_, other.device_), std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostMemory() {
    if (data_ != nullptr) device_->release_host(data_);
  }

  bool empty() const { return data_ == nullptr; }
  std::size_t bytes() const { return bytes_; }
  template <class T = std::byte>
  T* at(std::int64_t offset_bytes = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset_bytes);
  }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

inline std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}
inline int parts_of(std::int64_t value, std::int64_t unit) {
  return static_cast<int>((value + unit - 1) / unit);
}

/// kExhausted: wanted, free, and what to do.
Error no_memory(const Device& device, const char* what, std::int64_t bytes, const char* repair);

/// The device `number` of NVIDIA's driver with this build's kernels. Errors: a sentence for each thing that
/// is missing.
Result<std::shared_ptr<Device>> open_device(int number);

}  // namespace ft::cuda
