// Rows times bf16 weights. Each kernels_*.cpp includes it once, after its vec_*.h and kernels_product.h. Each
// output is one chain over the pairs of columns in ascending order; in each pair the second column comes
// first:
//   acc = fma(w_odd, x_odd, acc); acc = fma(w_even, x_even, acc)
// Denormal numbers are zeros (denormals.h). One vdpbf16ps computes the same, so all instruction sets give the
// same bits (docs/decisions/011). x is rounded to bf16 or, if `exact`, float32 unchanged.
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/unroll.h"

namespace ft::cpu::FT_ISA {

/// Two columns of a row as float32, rounded or not.
struct FloatPairs {
  struct Pair {
    V even, odd;
  };
  static constexpr int kBytes = kExactPairBytes;  // of two columns of a row

  static Pair load_weights(const std::byte* p) {
    const Bytes both = load_bytes(p);
    return {even_bf16(both), odd_bf16(both)};
  }
  static Pair spread(const std::byte* p) {
    float pair[2];
    __builtin_memcpy(pair, p, sizeof pair);
    return {splat(pair[0]), splat(pair[1])};
  }
  static V dot(V sum, const Pair& w, const Pair& x) { return fma(w.even, x.even, fma(w.odd, x.odd, sum)); }
  static void store_row(std::byte* p, V x) { store(reinterpret_cast<float*>(p), x); }
};

#ifdef __AVX512BF16__
/// Two columns of a row as bf16.
struct RoundedPairs {
  static constexpr int kBytes = 4;

  static Bytes load_weights(const std::byte* p) { return load_bytes(p); }
  static Bytes spread(const std::byte* p) { return splat_bytes(p); }
  static V dot(V sum, Bytes w, Bytes x) { return dot_pair(sum, w, x); }
  static void store_row(std::byte* p, V x) { store_bf16(p, x); }
};
#else
using RoundedPairs = FloatPairs;
#endif

/// Blocks at once: enough chains to hide the latency, and few enough that their totals fit in registers.
constexpr int pair_blocks(int rows) {
  if (kPassRows >= kTileRows) return rows == 1 ? 4 : kPairBlocks;
  return rows == 1 ? 4 : rows == 2 ? 2 : 1;
}

/// Prefetch distance; longer where arithmetic delays the reads.
constexpr int pair_prefetch_bytes(int rows) { return rows == 1 ? 1024 : 3072; }

/// kBlocks blocks at once, so that a few rows have several independent chains.
template <int kRows, int kBlocks, class Pairs>
void pairs_rows(const PairsArgs& args, int first_block, int tile_rows) {
  const std::byte* w = args.weights + first_block * args.block_bytes;
  const std::byte* x = args.in;
  const std::int64_t step = Pairs::kBytes * (kPassRows >= kTileRows ? kRows : tile_rows);
  V total[kBlocks][kRows];
  unroll<kBlocks>([&](auto b)
                      FT_INLINE { unroll<kRows>([&](auto m) FT_INLINE { total[b][m] = splat(0); }); });
  for (std::int64_t k = 0; k < args.pairs; ++k, w += kPairColumnBytes, x += step) {
    decltype(Pairs::load_weights(w)) weights[kBlocks];
    unroll<kBlocks>([&](auto b) FT_INLINE {
      weights[b] = Pairs::load_weights(w + b * args.block_bytes);
      prefetch(w + b * args.block_bytes + pair_prefetch_bytes(kRows));
    });
    unroll<kRows>([&](auto m) FT_INLINE {
      const auto pair = Pairs::spread(x + m * Pairs::kBytes);
      unroll<kBlocks>([&](auto b) FT_INLINE { total[b][m] = Pairs::dot(total[b][m], weights[b], pair); });
    });
  }
  unroll<kBlocks>([&](auto b) FT_INLINE {
    const int at = (first_block + b) * kLanes;
    unroll<kRows>([&](auto m) FT_INLINE {
      store_block(args.out + m * args.out_stride + at, total[b][m], args.outputs - at);
    });
  });
}

template <int kRows, class Pairs>
void pairs_blocks(const PairsArgs& args, int tile_rows) {
  constexpr int kWide = pair_blocks(kRows);
  int b = 0;
  for (; b + kWide <= args.blocks; b += kWide) pairs_rows<kRows, kWide, Pairs>(args, b, tile_rows);
  for (; b < args.blocks; ++b) pairs_rows<kRows, 1, Pairs>(args, b, tile_rows);
}

/// All rows of a tile, as many at a time as fit in registers.
template <class Pairs>
void pairs_tile(const PairsArgs& args) {
  using Call = void (*)(const PairsArgs&, int);
  static constexpr Call kCalls[] = {pairs_blocks<pass(1), Pairs>, pairs_blocks<pass(2), Pairs>,
                                    pairs_blocks<pass(3), Pairs>, pairs_blocks<pass(4), Pairs>,
                                    pairs_blocks<pass(5), Pairs>, pairs_blocks<pass(6), Pairs>,
                                    pairs_blocks<pass(7), Pairs>, pairs_blocks<pass(8), Pairs>};
  // With several passes, a few blocks at a time, so later passes find them in the cache.
  const int at_once = args.rows <= kPassRows ? args.blocks : pair_blocks(kPassRows);
  for (int b = 0; b < args.blocks; b += at_once) {
    PairsArgs part = args;
    part.weights += b * args.block_bytes;
    part.blocks = args.blocks - b < at_once ? args.blocks - b : at_once;
    part.out += b * kLanes;
    part.outputs -= b * kLanes;
    for (int first = 0; first < args.rows; first += kPassRows) {
      part.rows = pass(args.rows - first);
      kCalls[part.rows - 1](part, args.rows);
      part.in += kPassRows * Pairs::kBytes;
      part.out += kPassRows * args.out_stride;
    }
  }
}

inline void pairs_product(const PairsArgs& args) {
  if (args.exact) {
    pairs_tile<FloatPairs>(args);
  } else {
    pairs_tile<RoundedPairs>(args);
  }
}

template <class Pairs>
void pair_row(const PairArgs& args) {
  std::byte* out = args.out;
  for (std::int64_t k = 0; k < args.columns; k += kLanes) {
    const int columns = args.columns - k < kLanes ? static_cast<int>(args.columns - k) : kLanes;
    const V x = columns == kLanes ? load(args.in + k) : load_partial(args.in + k, columns);
    std::byte pairs[kLanes / 2 * Pairs::kBytes];
    Pairs::store_row(pairs, args.exact ? x : round_bf16(x));
    for (int i = 0; i < (columns + 1) / 2; ++i, out += args.rows * Pairs::kBytes) {
      __builtin_memcpy(out, pairs + i * Pairs::kBytes, Pairs::kBytes);
    }
  }
}

inline void pair(const PairArgs& args) {
  if (args.exact) {
    pair_row<FloatPairs>(args);
  } else {
    pair_row<RoundedPairs>(args);
  }
}

}  // namespace ft::cpu::FT_ISA
