// The kernels as C++ functions, by name. Errors: run_twin_kernel throws std::runtime_error if the threads
// of a group wait for others that never come, or if the number of buffers is not the kernel's.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "backends/metal/device.h"

namespace ft::metal {

inline constexpr std::size_t kMaxBuffers = 12;

/// < 0: unknown.
int find_twin_kernel(std::string_view name);
void run_twin_kernel(int kernel, std::span<std::byte* const> buffers, const std::byte* args, Grid grid,
                     int threads);

}  // namespace ft::metal
