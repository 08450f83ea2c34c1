// Where a fibre continues: a stack and the registers that a call must keep. The host runs threads of a GPU's
// kernels so (backends/metal/twin, backends/cuda/emulator). Thread: a fibre stays on the one that prepared
// it. Cost: a switch is some ten instructions on x86-64 and AArch64, a call of the system elsewhere.
#pragma once

#include <cstddef>
#include <span>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace ft {

#if defined(__x86_64__) || defined(__aarch64__)
using FibreContext = void*;
#else
using FibreContext = ucontext_t;
#endif

/// The first switch to the context calls entry(), which must never return.
void prepare_fibre(FibreContext& context, std::span<std::byte> stack, void (*entry)());
/// Continues `to`; returns when another fibre switches to `from`.
void switch_fibre(FibreContext& from, FibreContext& to);

}  // namespace ft
