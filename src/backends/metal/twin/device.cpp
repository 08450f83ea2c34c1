// The twin: the kernels as C++, one threadgroup after the other.
#include "backends/metal/device.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "backends/metal/twin/kernels.h"
#include "base/clock.h"

namespace ft::metal {
namespace {

class TwinDevice final : public Device {
 public:
  std::string_view name() const override { return "metal-twin"; }
  std::string describe() const override { return "the Metal kernels as C++, 1 thread"; }
  Result<Buffer> allocate(std::size_t bytes) override {
    Buffer buffer;
    const std::size_t size = bytes == 0 ? 1 : bytes;
    buffer.handle = std::calloc(1, size);
    buffer.data = static_cast<std::byte*>(buffer.handle);
    buffer.bytes = bytes;
    if (buffer.data == nullptr) {
      return Error{Code::kExhausted, fmt::format("metal-twin backend: no memory for {} bytes; use a smaller "
                                                 "model or context",
                                                 bytes)};
    }
    return buffer;
  }
  Result<Buffer> wrap(std::span<const std::byte> pages) override {
    return Buffer{nullptr, const_cast<std::byte*>(pages.data()), pages.size()};
  }
  void release(Buffer& buffer) override {
    std::free(buffer.handle);
    buffer = {};
  }
  int kernel(std::string_view name) const override { return find_twin_kernel(name); }
  int max_threads(int) const override { return kMaxThreads; }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    std::byte* places[kMaxBuffers];
    for (std::size_t i = 0; i < buffers.size(); ++i) places[i] = buffers[i].data();
    const std::int64_t begin_ns = steady_ns();
    run_twin_kernel(kernel, {places, buffers.size()}, args.data(), grid, threads);
    const std::int64_t took_ns = steady_ns() - begin_ns;
    running_ns_ += took_ns, piece_ns_ += took_ns;
  }
  std::int64_t submit() override {
    running_longest_ns_ = std::max(running_longest_ns_, std::exchange(piece_ns_, 0));
    return ++submissions_;
  }
  void finish() override {
    submit();
    device_ns_ = std::exchange(running_ns_, 0);
    longest_ns_ = std::exchange(running_longest_ns_, 0);
  }
  void wait_for(std::int64_t) const override {}
  std::int64_t device_ns() const override { return device_ns_; }
  std::int64_t longest_ns() const override { return longest_ns_; }
  std::int64_t memory_bytes() const override { return 0; }

 private:
  static constexpr int kMaxThreads = 1024;  // of Metal, too
  std::int64_t submissions_ = 0;
  std::int64_t running_ns_ = 0, device_ns_ = 0;
  std::int64_t piece_ns_ = 0, running_longest_ns_ = 0, longest_ns_ = 0;
};

}  // namespace

std::shared_ptr<Device> open_twin_device() { return std::make_shared<TwinDevice>(); }

}  // namespace ft::metal
