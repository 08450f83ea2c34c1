// The round's token buffer on the device: steps write the tokens that they sample there, and later steps of
// the round read them by place. Kernels also write them into pinned memory, from where collect() brings them
// to the buffers of the host. One for all executables of a backend. Thread: the engine thread.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/device.h"

namespace ft::cuda {

class RoundTokens {
 public:
  static Result<std::shared_ptr<RoundTokens>> make(std::shared_ptr<Device> device);

  int* device() const { return tokens_.at<int>(); }
  int* mirror() const { return mirror_.at<int>(); }
  /// A step was submitted that writes `place`; `buffer` is the host's own.
  void expect(std::span<std::int32_t> buffer, std::int32_t place);
  /// A token that the host has sampled.
  void set(std::span<std::int32_t> buffer, std::int32_t place, std::int32_t token);
  /// Waits for the device and fills the buffers. Returns the nanoseconds of the wait.
  std::int64_t collect();
  /// The buffers of earlier steps may be freed.
  void forget() { expected_.clear(); }

 private:
  explicit RoundTokens(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  struct Expected {
    std::int32_t* to;
    std::int32_t place;
  };
  std::shared_ptr<Device> device_;
  Memory tokens_;
  HostMemory mirror_;
  std::vector<Expected> expected_;
};

}  // namespace ft::cuda
