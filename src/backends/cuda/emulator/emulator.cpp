#include "backends/cuda/emulator/emulator.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cuda/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/emulator/fibers.h"
#include "base/clock.h"

namespace ft::cuda {
namespace {

using Kernel = void (*)(const void* args);

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

constexpr std::size_t kGuardBytes = 256;
constexpr int kGuard = 0xA5, kFresh = 0xFF;  // fresh memory reads as NaN, so that no code relies on zeros

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(bool hopper) : dynamic_(256 << 10) {
    facts_.name = "emulated device", facts_.architecture = hopper ? "sm_90" : "sm_80";
    facts_.driver = "none", facts_.capability = hopper ? 90 : 80, facts_.processors = 4;
    facts_.shared_bytes = (hopper ? 227 : 99) << 10;
    facts_.streams = facts_.async_products = hopper;
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::int64_t free_bytes() const override { return std::int64_t{1} << 32; }
  std::int64_t total_bytes() const override { return std::int64_t{1} << 32; }

  void* allocate(std::size_t bytes) override {
    auto* const begin = static_cast<unsigned char*>(std::aligned_alloc(256, sized(bytes)));
    if (begin == nullptr) return nullptr;
    std::memset(begin, kGuard, sized(bytes));
    std::memset(begin + kGuardBytes, kFresh, bytes);
    sizes_[begin + kGuardBytes] = bytes;
    return begin + kGuardBytes;
  }
  void release(void* memory) override {
    sizes_.erase(memory);
    std::free(static_cast<unsigned char*>(memory) - kGuardBytes);
  }
  void* allocate_host(std::size_t bytes) override { return std::aligned_alloc(256, round_up_256(bytes)); }
  void release_host(void* memory) override { std::free(memory); }
  void copy_in(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memmove(to, from, bytes); }
  void clear(void* to, std::size_t bytes) override { std::memset(to, 0, bytes); }
  void wait() override {
    for (const auto& [memory, bytes] : sizes_) check(static_cast<const unsigned char*>(memory), bytes);
  }
  void settle() override {}
  void read_settled(void* to, const void* from, std::size_t bytes) override { copy(to, from, bytes); }

  void launch(const Launch& launch, const void* args) override {
    const auto kernel = kernels().find(launch.kernel);
    if (kernel == kernels().end())
      throw DeviceError(std::string("emulated device: no kernel ") + launch.kernel);
    if (launch.shared_bytes > facts_.shared_bytes)
      throw DeviceError("emulated device: too much shared memory");
    static std::mutex one;  // devices of several threads share the registers of the emulated threads
    const std::lock_guard lock(one);
    const auto begin = reinterpret_cast<std::uintptr_t>(dynamic_.data());
    dynamic_memory = dynamic_.data() + (128 - begin % 128) % 128;  // kernels rely on whole 128 bytes
    gridDim = {static_cast<unsigned>(launch.grid.x), static_cast<unsigned>(launch.grid.y),
               static_cast<unsigned>(launch.grid.z)};
    ++launches_;
    for (int z = 0; z < launch.grid.z; ++z) {
      for (int y = 0; y < launch.grid.y; ++y) {
        for (int x = 0; x < launch.grid.x; ++x) {
          blockIdx = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
          if (!run_block(launch.threads, kernel->second, args))
            throw DeviceError(std::string("emulated device: threads wait for ever in ") + launch.kernel);
        }
      }
    }
  }
  void begin_graph() override {}
  std::unique_ptr<Graph> end_graph() override { return nullptr; }
  void launch(Graph& graph) override { (void)graph; }
  void stamp(int number) override {
    stamps_.resize(static_cast<std::size_t>(number) + 1);
    stamps_.back() = steady_ns();
  }
  double stamp_ns(int number) override {
    return static_cast<double>(stamps_[static_cast<std::size_t>(number)] - stamps_[0]);
  }

 private:
  static std::size_t round_up_256(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  static std::size_t sized(std::size_t bytes) { return round_up_256(bytes) + 2 * kGuardBytes; }
  static void check(const unsigned char* memory, std::size_t bytes) {
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      if (memory[i - kGuardBytes] != kGuard || memory[bytes + i] != kGuard)
        throw DeviceError("emulated device: a kernel wrote outside of its memory");
    }
  }

  DeviceFacts facts_;
  std::map<void*, std::size_t> sizes_;
  std::vector<unsigned char> dynamic_;
  std::vector<std::int64_t> stamps_;
};

}  // namespace

bool add_kernel(const char* name, void (*run)(const void* args)) {
  return kernels().emplace(name, run).second;
}

void offer_emulated_device() {
  link_kernels();
  substitute_device = [] {
    return std::static_pointer_cast<Device>(std::make_shared<EmulatedDevice>(false));
  };
}

std::shared_ptr<Device> emulated_hopper() {
  link_kernels(), link_hopper_kernels();
  return std::make_shared<EmulatedDevice>(true);
}

}  // namespace ft::cuda
