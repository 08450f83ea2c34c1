#define FT_ISA portable
#include "backends/cpu/kernels/vec_portable.h"
// Must follow vec_*.h, which defines its lanes.
#include "backends/cpu/kernels/kernels_impl.h"
