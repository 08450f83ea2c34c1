// Which instruction sets this machine runs and which one the cpu backend takes. Every set gives the same
// bits, so the choice is one of speed only. Thread: any. Cost: a few cpuid instructions. Errors: unknown or
// absent names.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/kernels.h"
#include "base/result.h"

namespace ft::cpu {

/// What runs here, best first; "portable" is always the last.
std::vector<const Kernels*> available_kernels();

/// `isa` as in BackendOptions: "auto" or a name. The error lists what this machine has.
Result<const Kernels*> choose_kernels(const std::string& isa);

}  // namespace ft::cpu
