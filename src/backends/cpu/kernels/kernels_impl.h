// The kernel table of one instruction set. Each kernels_<isa>.cpp includes it after it has defined FT_ISA
// (its namespace) and included its vec_<isa>.h. Nothing here or below uses functions of the standard library:
// an inline function compiled for one instruction set must not be linked into code for another.
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/kernels_math.h"
#include "backends/cpu/kernels/kernels_product.h"
// Uses store_block of kernels_product.h.
#include "backends/cpu/kernels/kernels_pairs.h"
// Uses for_vectors of kernels_math.h.
#include "backends/cpu/kernels/kernels_attend.h"
#include "backends/cpu/kernels/kernels_attend_shared.h"
#include "backends/cpu/kernels/kernels_delta.h"

namespace ft::cpu::FT_ISA {

#define FT_TEXT_INNER(x) #x
#define FT_TEXT(x) FT_TEXT_INNER(x)

const Kernels& kernels() {
  static constexpr Kernels kTable = {FT_TEXT(FT_ISA),
                                     RoundedPairs::kBytes,
                                     rms_norm,
                                     layer_norm,
                                     gated_norm,
                                     l2_norm,
                                     swiglu,
                                     geglu,
                                     clamped_swiglu,
                                     gelu_rows,
                                     add_rows,
                                     conv,
                                     quantise,
                                     codes_product,
                                     pair,
                                     pairs_product,
                                     plain_product,
                                     attend,
                                     attend_scores,
                                     attend_weights,
                                     attend_sums,
                                     dot,
                                     delta_pass,
                                     softcap,
                                     add_scaled,
                                     exponentials,
                                     sigmoid_gate,
                                     nullptr};
  return kTable;
}

#undef FT_TEXT
#undef FT_TEXT_INNER

}  // namespace ft::cpu::FT_ISA
