// Zeroed memory for weights, activations and timelines: one mapping, page-aligned, on huge pages where the
// system has them. A page becomes physical at its first touch, so the worker that uses it places it near its
// core. Errors: allocate() returns an empty Memory if the machine has too little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "base/system.h"

namespace ft::cpu {

class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  /// Empty if `bytes` is more than the machine's memory or the system refuses.
  static Memory allocate(std::int64_t bytes) {
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    if (bytes < 0 || bytes / page >= sysconf(_SC_PHYS_PAGES)) return {};
    return map(bytes, 0);
  }

  /// May be more than the machine's memory: the caller ensures that few of its pages are touched at once.
  static Memory reserve(std::int64_t bytes) {
    constexpr std::int64_t kMax = std::int64_t{1} << 45;
    if (bytes < 0 || bytes > kMax) return {};
    return map(bytes, MAP_NORESERVE);
  }

  /// Returns the whole pages of [begin, begin + bytes) to the system; they read as zeros when they are
  /// touched again.
  static void return_to_system(std::byte* begin, std::int64_t bytes) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    const std::uintptr_t first = (at + page - 1) / page * page;
    const std::uintptr_t last = (at + static_cast<std::uintptr_t>(bytes)) / page * page;
    if (first < last) ft::return_pages(begin + (first - at), last - first);
  }

  bool empty() const { return data_ == nullptr; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  float* floats() const { return static_cast<float*>(data_); }

 private:
  static Memory map(std::int64_t bytes, int flags) {
    Memory memory;
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    const auto size = static_cast<std::size_t>(bytes + page);  // room for read-ahead after the last byte
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (data == MAP_FAILED) return memory;
#ifdef MADV_HUGEPAGE
    if (bytes >= (4 << 20)) madvise(data, size, MADV_HUGEPAGE);
#endif
    memory.data_ = data;
    memory.bytes_ = size;
    return memory;
  }
  void swap(Memory& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// `count` rounded up to a multiple of `step`.
constexpr std::int64_t round_up(std::int64_t count, std::int64_t step) {
  return (count + step - 1) / step * step;
}

}  // namespace ft::cpu
