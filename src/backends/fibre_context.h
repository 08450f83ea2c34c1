// The point where a fibre continues: a stack and the registers that a call must keep. Fibres run the threads
// of a GPU's kernels on the host (backends/metal/twin, backends/cuda/emulator). Thread: a fibre stays on the
// one that prepared it. Cost: some ten instructions a switch on x86-64 and AArch64, else a system call.
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
