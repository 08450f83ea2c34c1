#if defined(__x86_64__)
#define FT_ISA avx512bf16
#include "backends/cpu/vec_avx512.h"
// After the lanes that it is written in.
#include "backends/cpu/kernels_impl.h"
#endif
