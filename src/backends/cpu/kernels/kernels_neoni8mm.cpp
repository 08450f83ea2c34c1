#if defined(__aarch64__)
#define FT_ISA neoni8mm
#include "backends/cpu/kernels/vec_neon.h"
// Must follow vec_*.h, which defines its lanes.
#include "backends/cpu/kernels/kernels_impl.h"
#endif
