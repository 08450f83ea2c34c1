// unroll<N>(body) calls body(Index<0>) .. body(Index<N - 1>) without a loop: the indices are constants while
// the compiler still splits arrays of vectors into registers. (g++ 12 unrolls pragma'd loops too late for
// arrays of structs: a factor of 4 in the products.) Included by the kernel headers only; no state, no cost
// of its own.
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

/// A lambda's attribute: inlined whatever its size.
#define FT_INLINE __attribute__((always_inline))
