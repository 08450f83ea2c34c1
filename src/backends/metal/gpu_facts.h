// The reported properties of an Apple GPU, and the sentences and refusals that follow, without a GPU at hand.
// Sizes in bytes. Thread: any. Errors: as Result.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace ft::metal {

struct GpuFacts {
  std::string name;               // "Apple M4 Pro"
  int family = 0;                 // of MTLGPUFamilyApple: 7 is M1, 8 M2, 9 M3 and M4, 10 M5
  std::uint64_t working_set = 0;  // recommendedMaxWorkingSetSize: 65 to 80 % of the machine's memory
  std::uint64_t max_buffer = 0;   // maxBufferLength
};

/// kUnsupported for a GPU older than M1.
Status check_family(const GpuFacts& gpu);
/// For `doctor` and reports: "Apple M1 (family Apple 7), working set 5.7 GB, not yet measured".
std::string describe(const GpuFacts& gpu);
/// kExhausted if `size` more do not fit in addition to `used`, with the limit and the next step.
Status check_room(const GpuFacts& gpu, std::uint64_t used, std::uint64_t size);

}  // namespace ft::metal
