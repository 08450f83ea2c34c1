// The backend's interface to a device: memory that the host sees too, kernels by name, launches in order. Two
// implementations: Metal (macos/device.cpp) and the twin (twin/device.cpp), which runs the same kernels as
// C++. Thread: the engine's; wait_for() and wait_idle() any. A step dispatches its launches and submits them;
// later steps may follow before the host waits. Errors: allocate() as Result; finish() throws
// std::runtime_error with the device's report on any step since the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace ft::metal {

/// Memory of a device. `data` is the host's view of it.
struct Buffer {
  void* handle = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// A place in a buffer, as a kernel takes it.
struct Place {
  const Buffer* buffer = nullptr;
  std::size_t offset = 0;

  std::byte* data() const { return buffer->data + offset; }
};

/// Threadgroups of a launch.
struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

class Device {
 public:
  virtual ~Device() = default;
  /// "metal" or "metal-twin".
  virtual std::string_view name() const = 0;
  /// The GPU; for `doctor` and reports.
  virtual std::string describe() const = 0;
  /// Its bytes have no defined value: code that needs zeros writes them. Memory that is never written takes
  /// no pages. kExhausted.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
  /// The pages of a mapped file, without a copy, for kernels that only read them. They begin at a multiple of
  /// kPackedPageBytes, are a multiple of it, and outlive the buffer. kExhausted; kUnsupported: the device
  /// does not map files.
  virtual Result<Buffer> wrap(std::span<const std::byte> pages) = 0;
  virtual void release(Buffer& buffer) = 0;
  /// The number of a kernel; < 0: unknown.
  virtual int kernel(std::string_view name) const = 0;
  /// Keeps the pipelines that kernel() has made for later starts of the program, where the device can.
  virtual void keep_pipelines() const {}
  /// Maximum threads of a threadgroup of this kernel.
  virtual int max_threads(int kernel) const = 0;
  /// Launches are in order: each sees what those before it wrote.
  virtual void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args,
                        Grid grid, int threads) = 0;
  /// Starts the launches dispatched since the last call. Returns the submission's number, counted from 1.
  virtual std::int64_t submit() = 0;
  /// Waits until all that was submitted is done.
  virtual void finish() = 0;
  /// Waits until a submission and those before it are done, for memory that the host reads or writes then.
  /// finish() reports failures.
  virtual void wait_for(std::int64_t submission) const = 0;
  /// The same for everything that was submitted.
  void wait_idle() const { wait_for(kEverySubmission); }
  static constexpr std::int64_t kEverySubmission = std::numeric_limits<std::int64_t>::max();
  /// The time of the launches that the last finish() waited for, nanoseconds of the device.
  virtual std::int64_t device_ns() const = 0;
  /// The longest time between two submit() among these launches.
  virtual std::int64_t longest_ns() const { return device_ns(); }
  /// Bytes that may be in use at once; 0: the machine's memory.
  virtual std::int64_t memory_bytes() const = 0;
};

/// Owns a buffer.
class Memory {
 public:
  Memory() = default;
  static Result<Memory> make(std::shared_ptr<Device> device, std::size_t bytes) {
    Memory memory;
    FT_ASSIGN(memory.buffer_, device->allocate(bytes));
    memory.device_ = std::move(device);
    return memory;
  }
  /// `owner` keeps the pages. Nothing may write them.
  static Result<Memory> wrap(std::shared_ptr<Device> device, std::span<const std::byte> pages,
                             std::shared_ptr<const void> owner) {
    Memory memory;
    FT_ASSIGN(memory.buffer_, device->wrap(pages));
    memory.device_ = std::move(device);
    memory.owner_ = std::move(owner);
    return memory;
  }
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory() {
    if (!device_) return;
    if (owner_) device_->wait_idle();  // launches keep the buffer, but not the pages
    device_->release(buffer_);
  }

  Place at(std::size_t offset = 0) const { return {&buffer_, offset}; }
  std::byte* data() const { return buffer_.data; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(buffer_.data);
  }
  std::size_t bytes() const { return buffer_.bytes; }

 private:
  void swap(Memory& other) {
    std::swap(device_, other.device_);
    std::swap(buffer_, other.buffer_);
    std::swap(owner_, other.owner_);
  }
  std::shared_ptr<Device> device_;
  Buffer buffer_;
  std::shared_ptr<const void> owner_;  // of pages that were wrapped
};

/// Starts the GPU of this Mac; kNotFound elsewhere. Its pipelines are kept in `pipeline_folder`, unless that
/// is empty.
Result<std::shared_ptr<Device>> open_metal_device(const std::string& pipeline_folder);
/// The twin: the same kernels on the host, for tests and `verify`.
std::shared_ptr<Device> open_twin_device();

}  // namespace ft::metal
