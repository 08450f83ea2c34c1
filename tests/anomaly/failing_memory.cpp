#include "tests/anomaly/failing_memory.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> g_live{0};       // allocations not yet freed
std::atomic<long> g_countdown{0};  // the allocation that fails; 0: none
std::atomic<bool> g_reached{false}, g_all_after{false};

void* allocate(std::size_t size, std::size_t alignment) {
  if (g_countdown.load() > 0 && g_countdown.fetch_sub(1) == 1) {
    g_reached.store(true);
    if (g_all_after.load()) g_countdown.store(1);
    throw std::bad_alloc();
  }
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* memory =
      alignment <= alignof(std::max_align_t) ? std::malloc(rounded) : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  g_live.fetch_add(1);
  return memory;
}

void* allocate_or_null(std::size_t size) noexcept {
  try {
    return allocate(size, alignof(std::max_align_t));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  g_live.fetch_sub(1);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate_or_null(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate_or_null(size); }
void* operator new(std::size_t size, std::align_val_t at) {
  return allocate(size, static_cast<std::size_t>(at));
}
void* operator new[](std::size_t size, std::align_val_t at) {
  return allocate(size, static_cast<std::size_t>(at));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace ft::test {

void plan_failure(FailingAllocation failing) {
  g_reached.store(false);
  g_all_after.store(failing.all_after);
  g_countdown.store(failing.n);
}

bool stop_failing() {
  g_countdown.store(0);
  return g_reached.load();
}

long live_allocations() { return g_live.load(); }

}  // namespace ft::test
