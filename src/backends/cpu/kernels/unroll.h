// unroll<N>(body) calls body(Index<0>) .. body(Index<N - 1>) without a loop: the indices are constants while
// the compiler still splits arrays of vectors into registers. (g++ 12 unrolls loops with a pragma too late
// for arrays of structs: a factor of 4 in the products.) Only the kernel headers include it.
#pragma once

namespace ft::cpu::FT_ISA {

template <int N>
struct Index {
  constexpr operator int() const { return N; }  // NOLINT(google-explicit-constructor)
};

template <int N, class Body>
[[gnu::always_inline]] inline void unroll(const Body& body) {
  if constexpr (N > 0) {
    unroll<N - 1>(body);
    body(Index<N - 1>{});
  }
}

}  // namespace ft::cpu::FT_ISA

/// Attribute of a lambda: inline it at any size.
#define FT_INLINE __attribute__((always_inline))
