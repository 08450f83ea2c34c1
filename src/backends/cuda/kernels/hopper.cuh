// Barriers that copies signal, and bulk copies into shared memory: sm_90 and later, not emulated.
#pragma once

#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

FT_DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
FT_DEVICE void barrier_init(u32 b, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
FT_DEVICE void barrier_arrive(u32 b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
FT_DEVICE void barrier_expect(u32 b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
/// A lost signal ends the step instead of hanging it. The loop is hidden from the compiler, which else takes
/// all that follows for divergent.
FT_DEVICE void barrier_wait(u32 b, u32 parity) {
  asm volatile(
      "{ .reg .pred p; .reg .u32 n; mov.u32 n, 0; again: "
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; "
      "add.u32 n, n, 1; setp.lt.u32 p, n, 4000000; @p bra again; trap; done: }" ::"r"(b),
      "r"(parity)
      : "memory");
}
FT_DEVICE void bulk_copy(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
FT_DEVICE void bulk_copy_once(u32 to, const void* from, u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

}  // namespace ft::cuda
