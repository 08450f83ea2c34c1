#define FT_ISA portable
#include "backends/cpu/vec_portable.h"
// After the lanes that it is written in.
#include "backends/cpu/kernels_impl.h"
