// Metal's words for a check by clang: address spaces are real, so a pointer without one is an error. Declared
// only; nothing is linked.
#pragma once

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;
typedef _Float16 half;
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2))) const
#define threadgroup __attribute__((address_space(3)))
#define thread
#define kernel
#define INFINITY __builtin_inff()
#define FT_SHARED(type, name, size) static threadgroup type name[size]
typedef uint uint3 __attribute__((ext_vector_type(3)));
enum class mem_flags { mem_none, mem_threadgroup, mem_device };
void threadgroup_barrier(mem_flags);
float simd_shuffle_xor(float, ushort);
float fma(float, float, float);
float ft_exp(float);
float ft_log(float);
float ft_sqrt(float);
float abs(float);
float max(float, float);
int min(int, int);
int max(int, int);
uint min(uint, uint);
template <class To, class From>
To as_type(From from) {
  return __builtin_bit_cast(To, from);
}
#define FT_EXP(x) ft_exp(x)
#define FT_LOG(x) ft_log(x)
#define FT_SQRT(x) ft_sqrt(x)
