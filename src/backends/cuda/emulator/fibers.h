// One block of threads on the emulated device: fibers that meet at the barriers of the block and of their
// warp. Thread: one at a time. Errors: run_block() says false if the threads wait for each other for ever.
#pragma once

#include <algorithm>

#include "backends/cuda/emulator/dialect.h"

namespace ft::cuda {

/// Runs the kernel for each thread of the block blockIdx.
bool run_block(int threads, void (*run)(const void* args), const void* args);

/// Both do nothing; a program that calls them links the kernels of kernels.cpp and hopper_kernels.cpp.
void link_kernels();
void link_hopper_kernels();

}  // namespace ft::cuda
