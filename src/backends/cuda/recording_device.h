// A GPU that runs nothing and records every launch with its arguments: it shows, on any machine, which kernel
// a shape gets. Addresses are recorded as the size of their allocation and the offset in it, so the order of
// allocations does not matter. Owner: tests. Thread: one.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/argument_fields.h"
#include "backends/cuda/device.h"

namespace ft::cuda {

class RecordingDevice final : public Device {
 public:
  struct Noted {
    std::string kernel, line;  // line: with grid, threads, shared memory and arguments
  };

  /// `clusters`: of any kernel that run at the same time.
  RecordingDevice(DeviceFacts facts, int clusters) : facts_(std::move(facts)), clusters_(clusters) {}

  const std::vector<Noted>& noted() const { return noted_; }
  void forget() { noted_.clear(); }

  const DeviceFacts& facts() const override { return facts_; }
  std::int64_t free_bytes() const override { return std::int64_t{1} << 37; }
  std::int64_t total_bytes() const override { return std::int64_t{1} << 37; }
  /// An address without memory: it is not read.
  void* allocate(std::size_t bytes) override {
    const std::uintptr_t at = next_;
    next_ += (bytes + 511) / 256 * 256;
    sizes_[at] = bytes;
    return reinterpret_cast<void*>(at);  // NOLINT(*-int-to-ptr)
  }
  void release(void* memory) override { sizes_.erase(reinterpret_cast<std::uintptr_t>(memory)); }
  void* allocate_host(std::size_t bytes) override {
    auto& memory = host_.emplace_back(new std::byte[bytes + 1]());
    sizes_[reinterpret_cast<std::uintptr_t>(memory.get())] = bytes;
    return memory.get();
  }
  void release_host(void* memory) override {
    sizes_.erase(reinterpret_cast<std::uintptr_t>(memory));
    std::erase_if(host_, [memory](const auto& own) { return own.get() == memory; });
  }
  void copy_in(void*, const void*, std::size_t) override {}
  void copy_out(void*, const void*, std::size_t) override {}
  void copy(void*, const void*, std::size_t) override {}
  void clear(void*, std::size_t) override {}
  void wait() override {}
  void settle() override {}
  void read_settled(void*, const void*, std::size_t) override {}

  void launch(const Launch& launch, const void* args) override {
    ++launches_;
    const auto place = [this](const void* address) { return place_of(address); };
    noted_.push_back(
        {launch.kernel,
         fmt::format("{} {}x{}x{} {} {}{}{}:{}", launch.kernel, launch.grid.x, launch.grid.y, launch.grid.z,
                     launch.threads, launch.shared_bytes, launch.dependent ? "" : " alone",
                     launch.fence ? " fence" : "", arguments_of(launch.kernel, args, place))});
  }
  int clusters(const Launch& /*launch*/) override { return clusters_; }
  void begin_graph() override {}
  std::unique_ptr<Graph> end_graph() override { return nullptr; }
  void launch(Graph& /*graph*/) override {}
  void stamp(int /*number*/) override {}
  double stamp_ns(int number) override { return number; }

 private:
  std::string place_of(const void* address) const {
    if (address == nullptr) return "null";
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto after = sizes_.upper_bound(at);
    if (after == sizes_.begin()) return "lost";
    const auto& [begin, bytes] = *std::prev(after);
    return at <= begin + bytes ? fmt::format("{}+{}", bytes, at - begin) : "lost";
  }

  DeviceFacts facts_;
  int clusters_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  std::map<std::uintptr_t, std::size_t> sizes_;  // by their first address
  std::vector<std::unique_ptr<std::byte[]>> host_;
  std::vector<Noted> noted_;
};

}  // namespace ft::cuda
