// An emulated GPU: the kernels of backends/cuda/kernels, compiled as C++, run thread by thread. It implements
// the same Device as NVIDIA's driver does (backends/cuda/device.h). It proves on any machine everything that
// does not depend on a GPU: layouts, indexing, row and state rules, and, since every operation is an IEEE one
// in a written order, the bits. It stops with a sentence where a kernel leaves its memory (allocations are
// between guards). Only test programs link it. Thread: one at a time. Cost: about 1 us for 100 operations of
// a thread.
#pragma once

#include <memory>

namespace ft::cuda {

class Device;

/// From now on a backend made with --device kEmulatedDevice is on this device.
void offer_emulated_device();

/// The same with Hopper's copies and asynchronous products, without its clusters.
std::shared_ptr<Device> emulated_hopper();

}  // namespace ft::cuda
