// A device that runs nothing until somebody waits for it. Owner: tests.
#pragma once

#include <stdexcept>
#include <utility>
#include <vector>

#include "backends/metal/forwarding_device.h"

namespace ft::metal {

/// The twin, but launches run when somebody waits. Memory that is released meanwhile stays until then.
class Late final : public ForwardingDevice {
 public:
  Late() : ForwardingDevice(open_twin_device()) {}
  ~Late() override { run(kEverySubmission); }
  void release(Buffer& buffer) override {
    released_.push_back(std::exchange(buffer, {}));
    if (launches_.empty()) run(kEverySubmission);
  }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    Launch& launch = launches_.emplace_back();
    launch.kernel = kernel, launch.grid = grid, launch.threads = threads;
    launch.submission = submitted + 1;
    for (const Place& place : buffers)
      launch.buffers.push_back(*place.buffer), launch.offsets.push_back(place.offset);
    launch.args.assign(args.begin(), args.end());
  }
  std::int64_t submit() override { return ++submitted; }
  void finish() override {
    run(kEverySubmission);
    if (!std::exchange(fails, false)) return;
    throw std::runtime_error("metal backend: the GPU reports: it was reset");
  }
  void wait_for(std::int64_t submission) const override { run(submission); }
  /// Number of submissions whose launches wait.
  std::int64_t waiting() const {
    return launches_.empty() ? 0 : submitted - launches_.front().submission + 1;
  }

  std::int64_t submitted = 0;
  mutable int whole_waits = 0;  // that had to wait for everything
  bool fails = false;

 private:
  struct Launch {
    int kernel = 0, threads = 0;
    std::int64_t submission = 0;
    Grid grid;
    std::vector<Buffer> buffers;
    std::vector<std::size_t> offsets;
    std::vector<std::byte> args;
  };

  void run(std::int64_t submission) const {
    if (submission == kEverySubmission && !launches_.empty()) ++whole_waits;
    std::size_t count = 0;
    for (; count < launches_.size() && launches_[count].submission <= submission; ++count) {
      const Launch& launch = launches_[count];
      std::vector<Place> places;
      for (std::size_t i = 0; i < launch.buffers.size(); ++i)
        places.push_back({&launch.buffers[i], launch.offsets[i]});
      inner().dispatch(launch.kernel, places, launch.args, launch.grid, launch.threads);
    }
    launches_.erase(launches_.begin(), launches_.begin() + static_cast<std::ptrdiff_t>(count));
    if (!launches_.empty()) return;
    for (Buffer& buffer : released_) inner().release(buffer);
    released_.clear();
  }

  mutable std::vector<Launch> launches_;
  mutable std::vector<Buffer> released_;
};

}  // namespace ft::metal
