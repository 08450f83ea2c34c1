// The gated delta rule on a tile of one head's state. Included once by each kernels_*.cpp.
// One pass reads: m = S^T k and y = S^T q together, then d = beta * (v - g m) and out = g y + (k . q) d,
// which is (g S + k d^T)^T q. Another pass writes g S + k d^T, for one token or for several in a row, in the
// same order of operations an element either way: what a replay makes is what the first time would have made.
#pragma once

#include "backends/cpu/kernels.h"
#include "backends/cpu/unroll.h"

namespace ft::cpu::FT_ISA {

template <int kWide>
void delta_read_wide(const DeltaToken& token) {
  V memory[kWide];
  V read[kWide];
  unroll<kWide>([&](auto w) FT_INLINE { memory[w] = read[w] = splat(0); });
  const float* line = token.state;
  for (int i = 0; i < token.key_dim; ++i, line += kWide * kLanes) {
    const V key = splat(token.k[i]);
    const V query = splat(token.q[i]);
    unroll<kWide>([&](auto w) FT_INLINE {
      const V value = load(line + w * kLanes);
      memory[w] = fma(value, key, memory[w]);
      read[w] = fma(value, query, read[w]);
    });
  }
  const V decay = splat(token.decay);
  unroll<kWide>([&](auto w) FT_INLINE {
    const V d = mul(splat(token.beta), sub(load(token.v + w * kLanes), mul(decay, memory[w])));
    store(token.d + w * kLanes, d);
    store(token.out + w * kLanes, fma(splat(token.key_query), d, mul(decay, read[w])));
  });
}

template <int kWide>
void delta_write_wide(const float* from, float* to, int key_dim, const DeltaUpdate* updates, int count) {
  for (int i = 0; i < key_dim; ++i, from += kWide * kLanes, to += kWide * kLanes) {
    V value[kWide];
    unroll<kWide>([&](auto w) FT_INLINE { value[w] = load(from + w * kLanes); });
    for (int u = 0; u < count; ++u) {
      const V key = splat(updates[u].k[i]);
      const V decay = splat(updates[u].decay);
      unroll<kWide>([&](auto w) FT_INLINE {
        value[w] = fma(key, load(updates[u].d + w * kLanes), mul(decay, value[w]));
      });
    }
    unroll<kWide>([&](auto w) FT_INLINE { store(to + w * kLanes, value[w]); });
  }
}

inline void delta_read(const DeltaToken& token) {
  switch (token.width / kLanes) {
    case 1:
      return delta_read_wide<1>(token);
    case 2:
      return delta_read_wide<2>(token);
    case 3:
      return delta_read_wide<3>(token);
    default:
      return delta_read_wide<4>(token);
  }
}

inline void delta_write(const float* from, float* to, int key_dim, int width, const DeltaUpdate* updates,
                        int count) {
  switch (width / kLanes) {
    case 1:
      return delta_write_wide<1>(from, to, key_dim, updates, count);
    case 2:
      return delta_write_wide<2>(from, to, key_dim, updates, count);
    case 3:
      return delta_write_wide<3>(from, to, key_dim, updates, count);
    default:
      return delta_write_wide<4>(from, to, key_dim, updates, count);
  }
}

}  // namespace ft::cpu::FT_ISA
