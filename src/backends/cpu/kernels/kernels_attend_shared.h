// The attention of kernels_attend.h by several workers that share a key/value head (AttendShare in
// kernels.h). Each kernels_*.cpp includes it once.
#pragma once

#include "backends/cpu/kernels/kernels_attend.h"

namespace ft::cpu::FT_ISA {

inline constexpr int kLineFloats = 16;  // of a cache line

/// The positions [skip, count) of a block that a query sees; if there are none, the query skips the block.
struct Seen {
  int skip, count;
  bool any() const { return count > 0 && skip < kKeyRows; }
};
inline Seen seen_of(const AttendShare& share, int query, int block) {
  const std::int64_t begin = (share.first_block + block) * kKeyRows;
  const std::int64_t count = share.of.position[query] + 1 - begin;
  const std::int64_t skip = share.of.first[query] - begin;
  return {skip <= 0         ? 0
          : skip < kKeyRows ? static_cast<int>(skip)
                            : kKeyRows,
          count < kKeyRows ? static_cast<int>(count) : kKeyRows};
}

inline std::int64_t offset_of(const AttendShare& share, int block) {
  return share.of.blocks[share.first_block + block] * share.of.block_stride;
}

/// A query's scores of a block, then its softmax weights, [kKeyRows].
inline float* weights_of(const AttendShare& share, int query, int block) {
  return share.weights + (static_cast<std::int64_t>(block) * kQueryTile + query) * kKeyRows;
}

template <int kQueries, class Element>
inline void scores_of(const AttendShare& share, int block, int last, int query) {
  const auto* keys = reinterpret_cast<const Element*>(share.of.keys + offset_of(share, block));
  const int next = block + 1 < last ? block + 1 : block;
  const auto* ahead = reinterpret_cast<const Element*>(share.of.keys + offset_of(share, next));
  float* scores[kQueries];
  for (int q = 0; q < kQueries; ++q) scores[q] = weights_of(share, query + q, block);
  block_scores<kQueries>(keys, ahead, share.of.query + query, share.of.head_dim, share.of.scale, scores);
  for (int q = 0; q < kQueries; ++q) {
    const Seen seen = seen_of(share, query + q, block);
    for (int j = 0; j < seen.skip; ++j) scores[q][j] = kFar;
    for (int j = seen.count; j < kKeyRows; ++j) scores[q][j] = kFar;
    share.tops[(query + q) * kShareBlocks + block] = largest(max(load(scores[q]), load(scores[q] + kLanes)));
  }
}

template <class Element>
inline void scores_of_blocks(const AttendShare& share, int first, int last) {
  for (int block = first; block < last; ++block) {
    for (int q = 0; q < share.of.queries;) {
      const auto all_see = [&](int queries) FT_INLINE {
        return q + queries <= share.of.queries && seen_of(share, q, block).any() &&
               seen_of(share, q + queries - 1, block).any();
      };
      if (all_see(kPassQueries)) {
        scores_of<kPassQueries, Element>(share, block, last, q);
        q += kPassQueries;
      } else if (all_see(kHalfPass)) {
        scores_of<kHalfPass, Element>(share, block, last, q);
        q += kHalfPass;
      } else {
        if (all_see(1)) scores_of<1, Element>(share, block, last, q);
        q += 1;
      }
    }
  }
}

inline void attend_scores(const AttendShare& share, int first, int last) {
  if (share.of.bits == 8) {
    scores_of_blocks<std::int8_t>(share, first, last);
  } else {
    scores_of_blocks<std::uint16_t>(share, first, last);
  }
}

/// The greatest score up to and including a block; `before` is the greatest score before it.
inline float raised(float before, float block_top) { return before > block_top ? before : block_top; }

inline void attend_weights(const AttendShare& share, int first, int last) {
  for (int q = 0; q < share.of.queries; ++q) {
    const float* tops = share.tops + q * kShareBlocks;
    float top = share.begins ? first_top(share.of, q) : share.top[q];
    for (int block = 0; block < last; ++block) {
      const Seen seen = seen_of(share, q, block);
      if (!seen.any()) continue;
      const float before = top;
      top = raised(before, tops[block]);
      if (block < first) continue;
      float* lane = weights_of(share, q, block);
      store(lane, exp(sub(load(lane), splat(top))));
      store(lane + kLanes, exp(sub(load(lane + kLanes), splat(top))));
      for (int j = 0; j < seen.skip; ++j) lane[j] = 0;
      for (int j = seen.count; j < kKeyRows; ++j) lane[j] = 0;
      float gone[kLanes];
      store(gone, exp(splat(before - top)));
      share.factors[q * kShareBlocks + block] = gone[0];
      share.sums[q * kShareBlocks + block] = sum(add(load(lane), load(lane + kLanes)));
      if (share.of.bits == 16) continue;
      const auto* values = reinterpret_cast<const std::int8_t*>(share.of.values + offset_of(share, block));
      const float* own = scales_at(values + share.of.padded * kKeyRows);
      store(lane, mul(load(lane), load(own)));
      store(lane + kLanes, mul(load(lane + kLanes), load(own + kLanes)));
    }
  }
}

/// kWide vectors of columns from `at` on, of one block. Prefetches those columns of the next block's values
/// and, first of all, its weights, which other workers wrote.
template <int kQueries, int kWide, class Element>
inline void sums_of(const AttendShare& share, int block, int query, int count, int at) {
  const int padded = share.of.padded;
  const auto* values = reinterpret_cast<const Element*>(share.of.values + offset_of(share, block)) + at;
  const int next = block + 1 < share.blocks ? block + 1 : block;
  const auto* ahead = reinterpret_cast<const Element*>(share.of.values + offset_of(share, next)) + at;
  V sums[kQueries][kWide];
  const float* weights = weights_of(share, query, block);
  const float* weights_ahead = weights_of(share, query, next);
  for (int i = 0; i < kQueries * kKeyRows; i += kLineFloats) prefetch(weights_ahead + i);
  unroll<kQueries>([&](auto q) FT_INLINE {
    const V factor = splat(share.factors[(query + q) * kShareBlocks + block]);
    unroll<kWide>([&](auto w) FT_INLINE {
      sums[q][w] = mul(load(share.total + (query + q) * padded + at + w * kLanes), factor);
    });
  });
  for (int j = 0; j < count; ++j, values += padded, ahead += padded) {
    prefetch(ahead);
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V weight = splat(weights[q * kKeyRows + j]);
      unroll<kWide>(
          [&](auto w) FT_INLINE { sums[q][w] = fma(weight, from_element(values + w * kLanes), sums[q][w]); });
    });
  }
  unroll<kQueries>([&](auto q) FT_INLINE {
    unroll<kWide>([&](auto w)
                      FT_INLINE { store(share.total + (query + q) * padded + at + w * kLanes, sums[q][w]); });
  });
}

template <int kWide, class Element>
inline void sums_of_blocks(const AttendShare& share, int at, float* mass) {
  constexpr int kMax = kPassQueries * kWide <= 16 ? kPassQueries : kHalfPass;  // whose sums fit in registers
  for (int block = 0; block < share.blocks; ++block) {
    for (int q = 0; q < share.of.queries;) {
      const Seen seen = seen_of(share, q, block);
      const auto alike = [&](int queries) FT_INLINE {
        return q + queries <= share.of.queries && seen_of(share, q + queries - 1, block).any() &&
               seen_of(share, q + queries - 1, block).count == seen.count;
      };
      const int queries = !seen.any() ? 1 : alike(kMax) ? kMax : 1;
      if (seen.any()) {
        if (queries == kMax) {
          sums_of<kMax, kWide, Element>(share, block, q, seen.count, at);
        } else {
          sums_of<1, kWide, Element>(share, block, q, seen.count, at);
        }
        for (int i = q; i < q + queries; ++i) {
          const int place = i * kShareBlocks + block;
          mass[i] = __builtin_fmaf(mass[i], share.factors[place], share.sums[place]);
        }
      }
      q += queries;
    }
  }
}

/// The greatest scores up to the end of the window, for the next one.
inline void carry_tops(const AttendShare& share) {
  for (int q = 0; q < share.of.queries; ++q) {
    float top = share.begins ? first_top(share.of, q) : share.top[q];
    for (int block = 0; block < share.blocks; ++block) {
      if (seen_of(share, q, block).any()) top = raised(top, share.tops[q * kShareBlocks + block]);
    }
    share.top[q] = top;
  }
}

inline void attend_sums(const AttendShare& share, int index) {
  const AttendArgs& of = share.of;
  if (index == 0) carry_tops(share);
  const int at = index * kShareColumns;
  const int wide = of.padded - at < kShareColumns ? 1 : 2;
  float* mass = share.mass + index * kQueryTile;
  for (int q = 0; share.begins && q < of.queries; ++q) {
    mass[q] = first_mass(of);
    for (int w = 0; w < wide; ++w) store(share.total + q * of.padded + at + w * kLanes, splat(0));
  }
  if (of.bits == 8) {
    wide == 2 ? sums_of_blocks<2, std::int8_t>(share, at, mass)
              : sums_of_blocks<1, std::int8_t>(share, at, mass);
  } else {
    wide == 2 ? sums_of_blocks<2, std::uint16_t>(share, at, mass)
              : sums_of_blocks<1, std::uint16_t>(share, at, mass);
  }
  const int columns = of.head_dim - at < kShareColumns ? of.head_dim - at : kShareColumns;
  for (int q = 0; share.ends && q < of.queries; ++q) {
    const V all = splat(mass[q]);
    const float* total = share.total + q * of.padded + at;
    for_vectors(columns, [&](std::int64_t i, auto get, auto put) {
      V value = div(get(total + i), all);
      if (of.gate[q] != nullptr) value = mul(value, sigmoid(get(of.gate[q] + at + i)));
      put(of.out[q] + at + i, value);
    });
  }
}

}  // namespace ft::cpu::FT_ISA
