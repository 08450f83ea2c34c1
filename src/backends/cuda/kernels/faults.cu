// Kernels that fail, for tests of the error paths (fault_test.cpp).
#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

FT_KERNEL(fault_trap, FaultArgs, 32) {
  if (*p.number == 0) asm volatile("trap;");
}

FT_KERNEL(fault_address, FaultArgs, 32) { *(volatile int*)(p.number + (1ll << 40)) = 1; }

FT_KERNEL(fault_spin, FaultArgs, 32) {
  while (*(volatile const int*)p.number == 0) {
  }
}

}  // namespace ft::cuda
