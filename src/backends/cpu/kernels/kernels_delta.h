// The gated delta rule on a tile of one value head's state. Each kernels_*.cpp includes it once. One pass
// brings the tile to a token's position: g S + k d^T of the tokens before. The operations on an element have
// one order, whether they run now or in a later step (a replay). The pass also sums the token's reads, m =
// S^T k and y = S^T q. Then d = beta * (v - g m) and out = g y + (k . q) d, which is (g S + k d^T)^T q. The
// result is the same whether or not the pass stores the new tile.
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/unroll.h"

namespace ft::cpu::FT_ISA {

/// Vectors of columns that one loop keeps in registers: their sums, values and d.
inline constexpr int kDeltaWide = kPassRows >= kTileRows ? 4 : 2;
inline constexpr int kManyUpdates = -1;

/// Columns [at, at + kWide * kLanes). kUpdates: 0, 1 or kManyUpdates.
template <int kWide, int kUpdates, bool kStore, bool kRead>
void delta_columns(const DeltaPass& pass, int at) {
  V memory[kWide];
  V read[kWide];
  V only[kWide];  // d of the one update
  unroll<kWide>([&](auto w) FT_INLINE {
    memory[w] = read[w] = splat(0);
    if constexpr (kUpdates == 1) only[w] = load(pass.updates[0].d + at + w * kLanes);
  });
  const float* from = pass.from + at;
  float* to = kStore ? pass.to + at : nullptr;
  for (int i = 0; i < pass.key_dim; ++i, from += pass.width) {
    V value[kWide];
    unroll<kWide>([&](auto w) FT_INLINE { value[w] = load(from + w * kLanes); });
    if constexpr (kUpdates == 1) {
      const V key = splat(pass.updates[0].k[i]);
      const V decay = splat(pass.updates[0].decay);
      unroll<kWide>([&](auto w) FT_INLINE { value[w] = fma(key, only[w], mul(decay, value[w])); });
    } else if constexpr (kUpdates == kManyUpdates) {
      for (int u = 0; u < pass.count; ++u) {
        const DeltaUpdate& update = pass.updates[u];
        const V key = splat(update.k[i]);
        const V decay = splat(update.decay);
        const float* d = update.d + at;
        unroll<kWide>([&](auto w)
                          FT_INLINE { value[w] = fma(key, load(d + w * kLanes), mul(decay, value[w])); });
      }
    }
    if constexpr (kStore) {
      unroll<kWide>([&](auto w) FT_INLINE { store(to + w * kLanes, value[w]); });
      to += pass.width;
    }
    if constexpr (kRead) {
      const V key = splat(pass.token->k[i]);
      const V query = splat(pass.token->q[i]);
      unroll<kWide>([&](auto w) FT_INLINE {
        memory[w] = fma(value[w], key, memory[w]);
        read[w] = fma(value[w], query, read[w]);
      });
    }
  }
  if constexpr (kRead) {
    const DeltaToken& token = *pass.token;
    const V decay = splat(token.decay);
    unroll<kWide>([&](auto w) FT_INLINE {
      const int column = at + w * kLanes;
      const V d = mul(splat(token.beta), sub(load(token.v + column), mul(decay, memory[w])));
      store(token.d + column, d);
      store(token.out + column, fma(splat(token.key_query), d, mul(decay, read[w])));
    });
  }
}

template <int kUpdates, bool kStore, bool kRead>
void delta_tile(const DeltaPass& pass) {
  int at = 0;
  for (; at + kDeltaWide * kLanes <= pass.width; at += kDeltaWide * kLanes)
    delta_columns<kDeltaWide, kUpdates, kStore, kRead>(pass, at);
  for (; at < pass.width; at += kLanes) delta_columns<1, kUpdates, kStore, kRead>(pass, at);
}

inline void delta_pass(const DeltaPass& pass) {
  const bool stores = pass.to != nullptr;
  if (pass.token == nullptr) return delta_tile<1, true, false>(pass);
  if (pass.count == 0) return delta_tile<0, false, true>(pass);
  if (pass.count == 1 && stores) return delta_tile<1, true, true>(pass);
  if (pass.count == 1) return delta_tile<1, false, true>(pass);
  return delta_tile<kManyUpdates, true, true>(pass);
}

}  // namespace ft::cpu::FT_ISA
