// Attention over paged keys and values. Each kernels_*.cpp includes it once. A query's softmax runs block by
// block (kKeyRows positions, fixed by position alone) with the running maximum of Milakov and Gimelshein
// 2018; within a block positions ascend. The queries of a call share only the reads. An element is a float16
// or an 8-bit code; codes become floats exactly, a key's scale is applied to the score and a value's to the
// softmax weight.
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/unroll.h"

namespace ft::cpu::FT_ISA {

inline constexpr float kFar = -3.0e38F;  // below every score
inline constexpr int kHalfPass = kPassQueries > 1 ? kPassQueries / 2 : 1;
inline constexpr int kLine = 32;  // elements of a cache line; for codes, of half a line

inline V from_element(const std::uint16_t* p) { return from_f16(p); }
inline V from_element(const std::int8_t* p) { return from_int8(p); }

/// The scales of a block, [kKeyRows], at the end of its codes.
inline const float* scales_at(const std::int8_t* end) { return reinterpret_cast<const float*>(end); }

/// scores[q] [kKeyRows] = scale * (query . key) for all positions of a block, dims ascending. Prefetches the
/// block's values, one line per dim.
template <int kQueries, class Element>
inline void block_scores(const Element* keys, const Element* values, const float* const* query, int head_dim,
                         float scale, float* const* scores) {
  V sums[kQueries][2];
  unroll<kQueries>([&](auto q) FT_INLINE { sums[q][0] = sums[q][1] = splat(0); });
  for (int d = 0; d < head_dim; ++d, keys += kKeyRows) {
    const V low = from_element(keys);
    const V high = from_element(keys + kLanes);
    prefetch(values + d * kLine);
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V x = splat(query[q][d]);
      sums[q][0] = fma(x, low, sums[q][0]);
      sums[q][1] = fma(x, high, sums[q][1]);
    });
  }
  V scales[2] = {splat(scale), splat(scale)};
  if constexpr (sizeof(Element) == 1) {
    const float* own = scales_at(keys);
    scales[0] = mul(scales[0], load(own));
    scales[1] = mul(scales[1], load(own + kLanes));
  }
  unroll<kQueries>([&](auto q) FT_INLINE {
    store(scores[q], mul(sums[q][0], scales[0]));
    store(scores[q] + kLanes, mul(sums[q][1], scales[1]));
  });
}

/// total = total * factor + sum over the block's first `count` positions of weight * value. Prefetches the
/// next block's keys from `next` on, one line per line of values.
template <int kQueries, int kWide, class Element>
inline void block_values(const Element* values, const Element* next, int padded, int count,
                         const float* const* weights, const float* factors, float* const* totals, int at) {
  V sums[kQueries][kWide];
  unroll<kQueries>([&](auto q) FT_INLINE {
    unroll<kWide>([&](auto w)
                      FT_INLINE { sums[q][w] = mul(load(totals[q] + at + w * kLanes), splat(factors[q])); });
  });
  const Element* line = values + at;
  for (int j = 0; j < count; ++j, line += padded) {
    unroll<(kWide + 1) / 2>([&](auto i) FT_INLINE { prefetch(next + (j * ((kWide + 1) / 2) + i) * kLine); });
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V weight = splat(weights[q][j]);
      unroll<kWide>([&](auto w)
                        FT_INLINE { sums[q][w] = fma(weight, from_element(line + w * kLanes), sums[q][w]); });
    });
  }
  unroll<kQueries>([&](auto q) FT_INLINE {
    unroll<kWide>([&](auto w) FT_INLINE { store(totals[q] + at + w * kLanes, sums[q][w]); });
  });
}

struct Running {
  float top[kQueryTile];
  float mass[kQueryTile];
  float* total[kQueryTile];    // [padded]
  float* weights[kQueryTile];  // [kKeyRows]
};

/// One block for queries first .. first + kQueries. Each of them sees positions [skip, count) of it.
template <class Element, int kQueries>
inline void attend_block(const AttendArgs& args, std::int64_t offset, std::int64_t next_offset, int first,
                         int skip, int count, Running& run) {
  const auto* keys = reinterpret_cast<const Element*>(args.keys + offset);
  const auto* values = reinterpret_cast<const Element*>(args.values + offset);
  const auto* next = reinterpret_cast<const Element*>(args.keys + next_offset);
  block_scores<kQueries>(keys, values, args.query + first, args.head_dim, args.scale, run.weights + first);
  float factors[kQueries];
  const float* weights[kQueries];
  float* totals[kQueries];
  for (int q = 0; q < kQueries; ++q) {
    const int at = first + q;
    float* lane = run.weights[at];
    for (int j = 0; j < skip; ++j) lane[j] = kFar;
    for (int j = count; j < kKeyRows; ++j) lane[j] = kFar;
    const V low = load(lane);
    const V high = load(lane + kLanes);
    const float block_top = largest(max(low, high));
    const float top = run.top[at] > block_top ? run.top[at] : block_top;
    V both[2] = {exp(sub(low, splat(top))), exp(sub(high, splat(top)))};
    store(lane, both[0]);
    store(lane + kLanes, both[1]);
    for (int j = 0; j < skip; ++j) lane[j] = 0;
    for (int j = count; j < kKeyRows; ++j) lane[j] = 0;
    float gone[kLanes];
    store(gone, exp(splat(run.top[at] - top)));
    factors[q] = gone[0];
    run.mass[at] = __builtin_fmaf(run.mass[at], factors[q], sum(add(load(lane), load(lane + kLanes))));
    if constexpr (sizeof(Element) == 1) {
      const float* own = scales_at(values + args.padded * kKeyRows);
      store(lane, mul(load(lane), load(own)));
      store(lane + kLanes, mul(load(lane + kLanes), load(own + kLanes)));
    }
    run.top[at] = top;
    weights[q] = lane;
    totals[q] = run.total[at];
  }
  constexpr int kWide = kQueries > 4 ? 2 : 4;  // as many sums as fit in registers
  int at = 0;
  for (; at + kWide * kLanes <= args.padded; at += kWide * kLanes) {
    block_values<kQueries, kWide>(values, next + at * kKeyRows, args.padded, count, weights, factors, totals,
                                  at);
  }
  for (; at < args.padded; at += kLanes) {
    block_values<kQueries, 1>(values, next + at * kKeyRows, args.padded, count, weights, factors, totals, at);
  }
}

template <class Element>
inline void attend_elements(const AttendArgs& args) {
  Running run;
  std::int64_t last = 0;
  const std::int64_t first_block = args.first[0] / kKeyRows * kKeyRows;
  for (int q = 0; q < args.queries; ++q) {
    run.top[q] = kFar;
    run.mass[q] = 0;
    run.total[q] = args.scratch + static_cast<std::int64_t>(q) * (args.padded + kKeyRows);
    run.weights[q] = run.total[q] + args.padded;
    for (int i = 0; i < args.padded; i += kLanes) store(run.total[q] + i, splat(0));
    if (args.position[q] > last) last = args.position[q];
  }
  for (std::int64_t begin = first_block; begin <= last; begin += kKeyRows) {
    const std::int64_t offset = args.blocks[begin / kKeyRows] * args.block_stride;
    const bool more = begin + kKeyRows <= last;
    const std::int64_t next = more ? args.blocks[begin / kKeyRows + 1] * args.block_stride : offset;
    const auto seen = [&](int q) FT_INLINE {
      const std::int64_t count = args.position[q] + 1 - begin;
      return count < kKeyRows ? static_cast<int>(count) : kKeyRows;
    };
    const auto skipped = [&](int q) FT_INLINE {
      const std::int64_t skip = args.first[q] - begin;
      return skip <= 0 ? 0 : skip < kKeyRows ? static_cast<int>(skip) : kKeyRows;
    };
    for (int q = 0; q < args.queries;) {
      const int count = seen(q);
      const int skip = skipped(q);
      // Positions ascend, so equal bounds at both ends mean equal queries in between.
      const auto alike = [&](int queries) FT_INLINE {
        return q + queries <= args.queries && seen(q + queries - 1) == count &&
               skipped(q + queries - 1) == skip;
      };
      const int queries = alike(kPassQueries) ? kPassQueries : alike(kHalfPass) ? kHalfPass : 1;
      if (count > 0 && skip < kKeyRows) {
        if (queries == kPassQueries) {
          attend_block<Element, kPassQueries>(args, offset, next, q, skip, count, run);
        } else if (queries == kHalfPass) {
          attend_block<Element, kHalfPass>(args, offset, next, q, skip, count, run);
        } else {
          attend_block<Element, 1>(args, offset, next, q, skip, count, run);
        }
      }
      q += queries;
    }
  }
  for (int q = 0; q < args.queries; ++q) {
    const V mass = splat(run.mass[q]);
    for_vectors(args.head_dim, [&](std::int64_t i, auto get, auto put) {
      V value = div(get(run.total[q] + i), mass);
      if (args.gate[q] != nullptr) value = mul(value, sigmoid(get(args.gate[q] + i)));
      put(args.out[q] + i, value);
    });
  }
}

inline void attend(const AttendArgs& args) {
  if (args.bits == 8) {
    attend_elements<std::int8_t>(args);
  } else {
    attend_elements<std::uint16_t>(args);
  }
}

// ---- shared by several workers (AttendShare) ----

/// What a query sees of a block: positions [skip, count); the block is not its own if that is nothing.
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

template <int kQueries, class Element>
inline void scores_of(const AttendShare& share, int block, int last, int query) {
  const auto* keys = reinterpret_cast<const Element*>(share.of.keys + offset_of(share, block));
  const int next = block + 1 < last ? block + 1 : block;
  const auto* ahead = reinterpret_cast<const Element*>(share.of.keys + offset_of(share, next));
  float* scores[kQueries];
  for (int q = 0; q < kQueries; ++q)
    scores[q] = share.weights + static_cast<std::int64_t>(query + q) * kSharePositions + block * kKeyRows;
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

/// The greatest score up to and with a block, `before` being that without it.
inline float raised(float before, float block_top) { return before > block_top ? before : block_top; }

inline void attend_weights(const AttendShare& share, int first, int last) {
  for (int q = 0; q < share.of.queries; ++q) {
    const float* tops = share.tops + q * kShareBlocks;
    float top = share.begins ? kFar : share.top[q];
    for (int block = 0; block < last; ++block) {
      const Seen seen = seen_of(share, q, block);
      if (!seen.any()) continue;
      const float before = top;
      top = raised(before, tops[block]);
      if (block < first) continue;
      float* lane = share.weights + static_cast<std::int64_t>(q) * kSharePositions + block * kKeyRows;
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

/// kWide vectors of columns from `at` on, of one block.
template <int kQueries, int kWide, class Element>
inline void sums_of(const AttendShare& share, int block, int query, int count, int at) {
  const int padded = share.of.padded;
  const auto* values = reinterpret_cast<const Element*>(share.of.values + offset_of(share, block)) + at;
  const int next = block + 1 < share.blocks ? block + 1 : block;
  const auto* ahead = reinterpret_cast<const Element*>(share.of.values + offset_of(share, next)) + at;
  V sums[kQueries][kWide];
  const float* weights[kQueries];
  for (int q = 0; q < kQueries; ++q)
    weights[q] = share.weights + static_cast<std::int64_t>(query + q) * kSharePositions + block * kKeyRows;
  unroll<kQueries>([&](auto q) FT_INLINE {
    const V factor = splat(share.factors[(query + q) * kShareBlocks + block]);
    unroll<kWide>([&](auto w) FT_INLINE {
      sums[q][w] = mul(load(share.total + (query + q) * padded + at + w * kLanes), factor);
    });
  });
  for (int j = 0; j < count; ++j, values += padded, ahead += padded) {
    prefetch(ahead);
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V weight = splat(weights[q][j]);
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
  constexpr int kMost = kPassQueries * kWide <= 16 ? kPassQueries : kHalfPass;  // whose sums fit in registers
  for (int block = 0; block < share.blocks; ++block) {
    for (int q = 0; q < share.of.queries;) {
      const Seen seen = seen_of(share, q, block);
      const auto alike = [&](int queries) FT_INLINE {
        return q + queries <= share.of.queries && seen_of(share, q + queries - 1, block).any() &&
               seen_of(share, q + queries - 1, block).count == seen.count;
      };
      const int queries = !seen.any() ? 1 : alike(kMost) ? kMost : 1;
      if (seen.any()) {
        if (queries == kMost) {
          sums_of<kMost, kWide, Element>(share, block, q, seen.count, at);
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
    float top = share.begins ? kFar : share.top[q];
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
    mass[q] = 0;
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
