#if defined(__aarch64__)
#define FT_ISA neoni8mm
#include "backends/cpu/vec_neon.h"
// After the lanes that it is written in.
#include "backends/cpu/kernels_impl.h"
#endif
