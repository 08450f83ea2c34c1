#if defined(__x86_64__)
#define FT_ISA avxvnni
#include "backends/cpu/vec_avx2.h"
// After the lanes that it is written in.
#include "backends/cpu/kernels_impl.h"
#endif
