// Metal's words in C++: the kernels of backends/metal/kernels run as they are. A thread of a threadgroup is a
// fibre (backends/metal/twin/fibres.h). Include standard headers before this one: it renames words of Metal.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "backends/metal/twin/fibres.h"
#include "format/half.h"

// NOLINTBEGIN(readability-identifier-naming): the names of Metal
using uint = unsigned int;
using ushort = unsigned short;
using uchar = unsigned char;
using ulong = unsigned long;

struct uint3 {
  uint x, y, z;
};

/// IEEE binary16 that counts in float, as Metal's.
struct half {
  ushort bits = 0;
  half() = default;
  explicit half(float value) : bits(ft::format::float_to_f16(value)) {}
  explicit operator float() const { return ft::format::f16_to_float(bits); }
};

template <class To, class From>
inline To as_type(From from) {
  return std::bit_cast<To>(from);
}

enum class mem_flags { mem_none, mem_threadgroup, mem_device };
inline void threadgroup_barrier(mem_flags) { ft::metal::wait_for_group(); }
inline float simd_shuffle_xor(float x, ushort distance) { return ft::metal::exchange(x, distance); }

// NOLINTEND(readability-identifier-naming)

using std::abs;
using std::fma;
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float max(float a, float b) { return a > b ? a : b; }

#define device
#define constant const
#define threadgroup
#define thread
#define kernel inline
#define FT_SHARED(type, name, size) static thread_local type name[size]
#ifdef FT_SAME_EXP  // as the kernels on CUDA have it
#include "backends/metal/on_cuda/exp_log.h"
#else
#define FT_EXP(x) std::exp(x)
#define FT_LOG(x) std::log(x)
#endif
#define FT_SQRT(x) std::sqrt(x)
