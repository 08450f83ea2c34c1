#if defined(__x86_64__)
#define FT_ISA avx512vnni
#include "backends/cpu/kernels/vec_avx512.h"
// Must follow vec_*.h, which defines its lanes.
#include "backends/cpu/kernels/kernels_impl.h"
#endif
