// A driver for tests without a GPU: memory is the host's, copies are copies, kernels do nothing, and calls
// fail when the test says so. One at a time. Owner: tests.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/cuda/driver.h"

namespace ft::cuda {

struct FakeDriver {
  int gpus = 1, capability = 90, init_status = 0;
  int refuse = 0;                     // the n-th allocation from now on, the host's ones included; 0: none
  int query_status = 0;               // of cuStreamQuery: the kernels' result
  int event_status = 0;               // of cuEventQuery
  int launch_status = 0;              // of cuLaunchKernelEx
  int allocations = 0;                // that there are now
  int calls = 0;                      // of all functions
  std::vector<std::string> launched;  // kernels, in order

  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  /// Images in which every kernel is found; `source` is their kind (kernel_images.h).
  static std::vector<std::byte> images(const char* source = "all");

  Driver table{};
};

}  // namespace ft::cuda
