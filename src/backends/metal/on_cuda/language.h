// Metal's words in CUDA, for NVRTC: the third platform of the kernels (tests/metal_on_cuda). All in a
// namespace, because CUDA has some of the same names. Options: --fmad=false, -default-device.
#pragma once

namespace metal_text {

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long long ulong;

template <class To, class From>
inline To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

struct half {
  ushort bits;
  half() = default;
  explicit half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  explicit operator float() const {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
    return out;
  }
};

enum class mem_flags { mem_none, mem_threadgroup, mem_device };
inline void threadgroup_barrier(mem_flags) { __syncthreads(); }
inline float simd_shuffle_xor(float x, ushort distance) { return __shfl_xor_sync(~0u, x, distance); }
inline float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
inline float abs(float x) { return fabsf(x); }
inline uint min(uint a, uint b) { return a < b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float max(float a, float b) { return a > b ? a : b; }

}  // namespace metal_text

#define INFINITY __int_as_float(0x7f800000)
#define device
#define constant const
#define threadgroup
#define thread
#define kernel inline
#define FT_SHARED(type, name, size) __shared__ type name[size]
#define FT_SQRT(x) __fsqrt_rn(x)
#ifdef FT_PLAIN_EXP
#define FT_EXP(x) expf(x)
#define FT_LOG(x) logf(x)
#endif
