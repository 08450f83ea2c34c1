// CUDA's words for the C++ compiler: kernels of backends/cuda/kernels become functions that the emulated
// device (emulator.h) runs thread by thread. Only tests are built with it. Thread: one; shared memory is
// static.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "format/half.h"

#define FT_DEVICE [[maybe_unused]] static inline
#define FT_DEVICE_MEMBER inline
#define FT_SHARED static
#define FT_DYNAMIC(name) unsigned char* name = ::ft::cuda::dynamic_memory
#define FT_UNROLL
#define FT_LOOP
#define FT_UNROLL_4
#define FT_UNROLL_2
#define FT_KERNEL(name, Args, threads)                                                                \
  static void name(const Args& p);                                                                    \
  [[maybe_unused]] static const bool registered_##name =                                              \
      ::ft::cuda::add_kernel(#name, [](const void* args) { name(*static_cast<const Args*>(args)); }); \
  static void name(const Args& p)
#define FT_KERNEL_SHARING(name, Args, threads, blocks) FT_KERNEL(name, Args, threads)

namespace ft::cuda {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
// The indices of the running thread.
extern Index threadIdx, blockIdx, gridDim;
extern unsigned char* dynamic_memory;

bool add_kernel(const char* name, void (*run)(const void* args));
/// Waits for the other threads of the block, or of the warp; `exchange` gives what lane `from` had given.
void wait_for_block();
std::uint32_t exchange(std::uint32_t own, int from);
void mma_bytes(int (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
               std::uint32_t b0, std::uint32_t b1);
inline void mma_bytes_16(int (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
  mma_bytes(c, a0, a1, 0, 0, b0, 0);
}

void mma_halves(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
void load_left(std::uint32_t (&a)[4], const std::uint16_t* at, int stride);
void load_right(std::uint32_t (&b)[4], const std::uint16_t* at, int stride);
void load_right_turned(std::uint32_t (&b)[4], const std::uint16_t* at, int stride);

// NOLINTBEGIN(readability-identifier-naming): the names of CUDA and of kernels/device.cuh
struct uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline float fma_(float a, float b, float c) { return std::fma(a, b, c); }
inline float sqrt_(float a) { return std::sqrt(a); }
inline int round_(float a) { return static_cast<int>(std::nearbyint(a)); }
// NOLINTEND(readability-identifier-naming)
inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline double double_of(unsigned long long bits) { return std::bit_cast<double>(bits); }
inline unsigned long long bits_of(double value) { return std::bit_cast<unsigned long long>(value); }
inline float half_to_float(std::uint16_t half) { return format::f16_to_float(half); }
inline std::uint16_t float_to_half(float value) { return format::float_to_f16(value); }
inline int shuffle(int value, int lane) {
  return static_cast<int>(exchange(static_cast<std::uint32_t>(value), lane));
}
inline float shuffle(float value, int lane) { return float_of(exchange(bits_of(value), lane)); }
inline int shuffle_xor(int value, int distance) {
  return shuffle(value, static_cast<int>(threadIdx.x & 31) ^ distance);
}
inline float shuffle_xor(float value, int distance) {
  return shuffle(value, static_cast<int>(threadIdx.x & 31) ^ distance);
}
inline std::uint32_t warp_max_of(std::uint32_t value) {
  for (int distance = 16; distance > 0; distance >>= 1) {
    const std::uint32_t other = exchange(value, static_cast<int>(threadIdx.x & 31) ^ distance);
    value = other > value ? other : value;
  }
  return value;
}
inline std::uint32_t permute_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t select) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  std::uint32_t out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t nibble = select >> (4 * i) & 15U;
    const auto byte = static_cast<std::uint32_t>(bytes >> (8 * (nibble & 7U)) & 255U);
    out |= ((nibble & 8U) == 0 ? byte : (byte & 128U) == 0 ? 0U : 255U) << (8 * i);
  }
  return out;
}
inline float load_fresh(const float* from) { return *from; }
inline void sync_warp() { exchange(0, 0); }
inline int atomic_add(int* to, int value) {
  const int before = *to;
  *to += value;
  return before;
}
inline void sync_block() { wait_for_block(); }
inline void copy_async(void* to, const void* from) { std::memcpy(to, from, 16); }
inline void copy_async_or_zero(void* to, const void* from, bool there) {
  if (there)
    std::memcpy(to, from, 16);
  else
    std::memset(to, 0, 16);
}
inline void end_copies() {}
template <int Left>
void copies_left() {}
inline void begin_kernel() {}
inline void release_next() {}
inline void wait_for_rows() {}

// ---- hopper.cuh: barriers lie in shared memory as there; a copy is done when it is begun ----

void barrier_init(std::uint32_t b, std::uint32_t n);
void barrier_arrive(std::uint32_t b);
void barrier_expect(std::uint32_t b, std::uint32_t n);
void barrier_wait(std::uint32_t b, std::uint32_t parity);
void bulk_copy(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier);
void sync_first_256();
inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(p) - dynamic_memory);
}
inline void bulk_copy_once(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
                           unsigned long long /*policy*/) {
  bulk_copy(to, from, bytes, barrier);
}
inline unsigned long long read_once() { return 0; }
inline void publish_barriers() {}
inline void order_copies() {}

}  // namespace ft::cuda
