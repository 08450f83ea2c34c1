// The instruction sets that this machine runs, and the choice of the cpu backend among them. Every set gives
// the same bits, so the choice affects only speed. Errors: unknown or absent names.
#pragma once

#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "base/result.h"

namespace ft::cpu {

/// The sets that run here, best first; "portable" is always the last.
std::vector<const Kernels*> available_kernels();

/// `isa`: "auto" or a name. The error lists the sets of this machine.
Result<const Kernels*> choose_kernels(const std::string& isa);

}  // namespace ft::cpu
