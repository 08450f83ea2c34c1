#define FT_ISA portable
#include "backends/cpu/vec_portable.h"
// Must follow vec_*.h, which defines its lanes.
#include "backends/cpu/kernels_impl.h"
