// Counts every operator new of a test program, to test that work does not allocate. It defines the program's
// operators, so only one source of a program may include it.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace ft::test {

inline std::atomic<long> allocations{0};

inline void* counted(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

inline void* counted(std::size_t bytes) {
  if (void* memory = counted(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}

}  // namespace ft::test

void* operator new(std::size_t bytes) { return ft::test::counted(bytes); }
void* operator new[](std::size_t bytes) { return ft::test::counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return ft::test::counted(bytes, tag);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return ft::test::counted(bytes, tag);
}
// Not inlined: g++ would take free() for the wrong partner of an operator new that it did not inline.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
