// Every kernel of backends/metal/kernels as a kernel of CUDA, `run_` before its name. All take one struct:
// the buffers in order, then the bytes of their arguments.
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/on_cuda/language.h"

namespace metal_text {
#include "backends/metal/on_cuda/exp_log.h"

#include "backends/metal/kernels/draft.h"
#include "backends/metal/kernels/elementwise.h"
#include "backends/metal/kernels/linear.h"
#include "backends/metal/kernels/norm.h"
#include "backends/metal/kernels/state.h"

struct Given {
  void* buffers[12];
  unsigned long long args[16];
};

template <class T>
struct Plain {
  typedef T Type;
};
template <class T>
struct Plain<T&> {
  typedef T Type;
};
template <unsigned N, class First, class... Rest>
struct Nth : Nth<N - 1, Rest...> {};
template <class First, class... Rest>
struct Nth<0, First, Rest...> {
  typedef First Type;
};
template <unsigned... I>
struct Numbers {};
template <unsigned N, unsigned... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I>
struct Count<0, I...> {
  typedef Numbers<I...> Type;
};

/// The same binding as in the twin: buffers, arguments, where the thread is.
template <auto KERNEL, class... P, unsigned... I>
__device__ inline void call(void (*)(P...), Numbers<I...>, const Given& given) {
  typedef typename Nth<sizeof...(I), P...>::Type Args;
  KERNEL((typename Nth<I, P...>::Type)given.buffers[I]...,
         *(const typename Plain<Args>::Type*)given.args, uint3{blockIdx.x, blockIdx.y, blockIdx.z},
         threadIdx.x % 32, threadIdx.x / 32);
}
template <auto KERNEL, class... P>
__device__ inline void call(void (*signature)(P...), const Given& given) {
  call<KERNEL>(signature, typename Count<sizeof...(P) - 4>::Type(), given);
}

#ifndef FT_MOST_THREADS
#define FT_MOST_THREADS 1024  // 32 query heads of a key head
#endif
#define FT_INSTANCE(name, ...)                          \
  extern "C" __global__ void                            \
  __launch_bounds__(FT_MOST_THREADS)                    \
      run_##name(const __grid_constant__ Given given) { \
    call<&__VA_ARGS__>(&__VA_ARGS__, given);            \
  }
#define FT_PLAIN(name) FT_INSTANCE(name, name)
#include "backends/metal/kernels/list.inc"

}  // namespace metal_text
