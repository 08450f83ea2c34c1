// The twin's kernels once more, compiled with fused and contracted arithmetic where the compiler may: the
// test of contraction loads it. Its functions are private, so nothing of it is used elsewhere.
#include "backends/metal/twin/kernels.h"

extern "C" __attribute__((visibility("default"))) void ft_run_contracted(
    const char* name, std::byte* const* buffers, std::size_t count, const std::byte* args, unsigned x,
    unsigned y, unsigned z, int threads) {
  ft::metal::run_twin_kernel(ft::metal::find_twin_kernel(name), {buffers, count}, args, {x, y, z}, threads);
}
