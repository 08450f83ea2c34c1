// The dialect that kernels are written in: CUDA C++ without its headers, which the C++ compiler understands
// too (backends/cuda/emulator). Floating-point operations are IEEE ones in the written order: NVRTC compiles
// with --fmad=false, the C++ compiler without contraction, so both give the same bits. fma_ is the fused one.
#pragma once

#include "backends/cuda/arguments.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define FT_DEVICE static __device__ __forceinline__
#define FT_DEVICE_MEMBER __device__ __forceinline__
#define FT_SHARED __shared__
#define FT_DYNAMIC(name) extern __shared__ __align__(128) unsigned char name[]
#define FT_UNROLL _Pragma("unroll")
// The first round of a launch fetches its code from far away, so loops that run a few times stay small.
#define FT_LOOP _Pragma("unroll 1")
#define FT_UNROLL_4 _Pragma("unroll 4")
#define FT_UNROLL_2 _Pragma("unroll 2")
#define FT_KERNEL(name, Args, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args p)
// With so few registers that `blocks` of them share an SM.
#define FT_KERNEL_SHARING(name, Args, threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args p)
// In clusters of `blocks` blocks, which run at the same time and reach each other's shared memory (sm_90).
#define FT_KERNEL_CLUSTER(name, Args, threads, blocks)                                 \
  extern "C" __global__ void __cluster_dims__(blocks, 1, 1) __launch_bounds__(threads) \
      name(const __grid_constant__ Args p)
#else
#include "backends/cuda/emulator/dialect.h"
#endif

namespace ft::cuda {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;

FT_DEVICE int lane_of() { return (int)threadIdx.x & 31; }
FT_DEVICE int warp_of() { return (int)threadIdx.x >> 5; }

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
FT_DEVICE float fma_(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FT_DEVICE float sqrt_(float a) { return __fsqrt_rn(a); }
FT_DEVICE int round_(float a) { return __float2int_rn(a); }
FT_DEVICE float float_of(u32 bits) { return __uint_as_float(bits); }
FT_DEVICE u32 bits_of(float value) { return __float_as_uint(value); }
FT_DEVICE double double_of(u64 bits) { return __longlong_as_double((long long)bits); }
FT_DEVICE u64 bits_of(double value) { return (u64)__double_as_longlong(value); }
FT_DEVICE float shuffle_xor(float value, int distance) { return __shfl_xor_sync(~0u, value, distance); }
FT_DEVICE int shuffle_xor(int value, int distance) { return __shfl_xor_sync(~0u, value, distance); }
FT_DEVICE float shuffle(float value, int lane) { return __shfl_sync(~0u, value, lane); }
FT_DEVICE int shuffle(int value, int lane) { return __shfl_sync(~0u, value, lane); }
FT_DEVICE u32 warp_max_of(u32 value) { return __reduce_max_sync(~0u, value); }
/// Not out of the cache of the SM, where a launch that began early may find what was there before.
FT_DEVICE float load_fresh(const float* from) {
  float value;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}
FT_DEVICE void sync_warp() { __syncwarp(); }
FT_DEVICE int atomic_add(int* to, int value) { return atomicAdd(to, value); }
FT_DEVICE void sync_block() { __syncthreads(); }
FT_DEVICE float half_to_float(u16 half) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(half));
  return out;
}
FT_DEVICE u16 float_to_half(float value) {
  u16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
  return out;
}
/// 16 bytes into shared memory, there after copies_left(n) with n groups begun later.
FT_DEVICE void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
/// The same, or 16 bytes of zeros.
FT_DEVICE void copy_async_or_zero(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
FT_DEVICE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left>
FT_DEVICE void copies_left() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}
/// The low three bits of nibble i of `select` choose the byte of `high:low` that becomes byte i. If the
/// nibble's highest bit is set, byte i has that byte's sign in all eight bits.
FT_DEVICE u32 permute_bytes(u32 low, u32 high, u32 select) {
  u32 out;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(low), "r"(high), "r"(select));
  return out;
}
/// c += a * b: a 16 x 32 of unsigned, b 32 x 8 of signed bytes, exact.
FT_DEVICE void mma_bytes(int (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
/// The same of 16 inputs: a 16 x 16, b 16 x 8.
FT_DEVICE void mma_bytes_16(int (&c)[4], u32 a0, u32 a1, u32 b0) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}
/// Operands of mma_halves out of rows of halves in shared memory, `stride` apart, 16-byte aligned: 16 rows x
/// 16 as its left one; 8 rows x 32 (column n of the product is row n) as two right ones; 32 rows x 8 (column
/// n is column n) as two right ones.
FT_DEVICE void load_left(u32 (&a)[4], const u16* at, int stride) {
  const u16* row = at + lane_of() % 16 * stride + lane_of() / 16 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
FT_DEVICE void load_right(u32 (&b)[4], const u16* at, int stride) {
  const u16* row = at + lane_of() % 8 * stride + lane_of() / 8 * 8;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
FT_DEVICE void load_right_turned(u32 (&b)[4], const u16* at, int stride) {
  const u16* row = at + lane_of() * stride;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
/// c += a * b: halves, 16 x 16 by 16 x 8, into floats. The sum is the tensor cores' own: sm_80 and 89 add
/// eight products at a time, later ones sixteen. Integers below 2^24 are exact in all of them.
FT_DEVICE void mma_halves(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// The next launch may begin: its blocks take what is free and read what no kernel of the step writes.
FT_DEVICE void release_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// Waits for what the launches before have written. Before it a kernel may read weights, the step's table,
/// and memory of timelines that it alone writes in a step; it may write nothing.
FT_DEVICE void wait_for_rows() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
FT_DEVICE void begin_kernel() {
  release_next();
  wait_for_rows();
}
#endif

// NOLINTBEGIN(readability-identifier-naming): an ending keeps them apart from the functions of CUDA
FT_DEVICE int min_(int a, int b) { return a < b ? a : b; }
FT_DEVICE int max_(int a, int b) { return a > b ? a : b; }
FT_DEVICE float max_(float a, float b) { return a > b ? a : b; }
// NOLINTEND(readability-identifier-naming)
FT_DEVICE float magnitude(float a) { return float_of(bits_of(a) & 0x7fffffffu); }
FT_DEVICE float bf16_low(u32 pair) { return float_of(pair << 16); }
FT_DEVICE float bf16_high(u32 pair) { return float_of(pair & 0xffff0000u); }

/// The sum over a warp, with the same bits in every lane: additions of a butterfly.
FT_DEVICE float warp_sum(float value) {
  FT_UNROLL for (int distance = 16; distance > 0; distance >>= 1) value =
      value + shuffle_xor(value, distance);
  return value;
}
FT_DEVICE float warp_max(float value) {
  FT_UNROLL for (int distance = 16; distance > 0; distance >>= 1) value =
      max_(value, shuffle_xor(value, distance));
  return value;
}

/// exp(x) within 2 units in the last place; 0 below -87, exp(88) above 88.
FT_DEVICE float exp_(float x) {  // NOLINT(readability-identifier-naming)
  if (!(x > -87.0f)) return 0;
  const float safe = x < 88.0f ? x : 88.0f;
  const float shifted = safe * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the nearest integer in the low bits
  const float n = shifted - 12582912.0f;
  const float r = fma_(n, 2.12194440e-4f, fma_(n, -0.693359375f, safe));
  float sum = 1.98412698e-4f;
  sum = fma_(sum, r, 1.38888889e-3f);
  sum = fma_(sum, r, 8.33333333e-3f);
  sum = fma_(sum, r, 4.16666667e-2f);
  sum = fma_(sum, r, 1.66666667e-1f);
  sum = fma_(sum, r, 0.5f);
  sum = fma_(sum, r, 1.0f);
  sum = fma_(sum, r, 1.0f);
  return sum * float_of((bits_of(shifted) + 127u) << 23);
}

FT_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exp_(-x)); }
FT_DEVICE float silu(float x) { return x * sigmoid(x); }
/// x * sigmoid(2 y) is 0.5 x (1 + tanh y).
FT_DEVICE float gelu(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return x * sigmoid(2.0f * inner);
}

/// The exponential and logarithm of sampling/exp_log.h, operation by operation.
FT_DEVICE double exp_of_negative(double x) {
  const double safe = x > -700.0 ? x : -700.0;
  const double shifted = safe * 1.44269504088896338700e+00 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const double r = (safe - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 1.0 / 2;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  return sum * double_of((bits_of(shifted) + 1023) << 52);
}

FT_DEVICE double log_of_positive(double x) {
  if (!(x > 0)) return double_of(0xfff0000000000000ull);
  const u64 bits = bits_of(x);
  int exponent = (int)(bits >> 52) - 1023;
  double m = double_of((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double even =
      w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860510658591e-01)));
  const double half = 0.5 * f * f;
  const double n = exponent;
  return n * 6.93147180369123816490e-01 -
         ((half - (s * (half + (even + odd)) + n * 1.90821492927058770002e-10)) - f);
}

}  // namespace ft::cuda
