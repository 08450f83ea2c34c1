// Memory that a step fills and no later step reads: activations, codes, partial sums. Steps of a backend run
// in the order of one stream, so its executables share it; a model that is split into stages has many of
// them. An executable that needs more gets a larger memory, which later executables share. Owner: the backend
// and the executables. Thread: the engine thread.
#pragma once

#include <array>
#include <memory>

#include "backends/cuda/device.h"

namespace ft::cuda {

using SharedMemory = std::shared_ptr<const Memory>;

class Scratch {
 public:
  enum class Use : std::uint8_t { kRows, kCodes, kPartialSums, kQueries };

  explicit Scratch(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  /// Empty if there is no memory.
  SharedMemory take(Use use, std::int64_t bytes) {
    std::weak_ptr<const Memory>& known = known_[static_cast<std::size_t>(use)];
    SharedMemory memory = known.lock();
    if (memory && !memory->empty() && static_cast<std::int64_t>(memory->bytes()) >= bytes) return memory;
    memory = std::make_shared<const Memory>(device_, static_cast<std::size_t>(bytes));
    known = memory;
    return memory;
  }

 private:
  std::shared_ptr<Device> device_;
  std::array<std::weak_ptr<const Memory>, 4> known_;
};

}  // namespace ft::cuda
