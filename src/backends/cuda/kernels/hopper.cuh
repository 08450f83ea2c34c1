// Barriers that copies signal, and bulk copies into shared memory: sm_90 and later.
#pragma once

#include "backends/cuda/kernels/device.cuh"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
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
/// A lost signal ends the step instead of hanging it. The loop is hidden from the compiler, which would treat
/// the code after it as divergent.
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

/// The policy of bulk_copy_once: data that is read once does not stay in the cache.
FT_DEVICE u64 read_once() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// Copies may use the barriers that this thread has made.
FT_DEVICE void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Copies of this thread see what earlier launches have written.
FT_DEVICE void order_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
/// Waits for threads 0 to 255 of the block.
FT_DEVICE void sync_first_256() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

}  // namespace ft::cuda
#endif
