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

/// Fetches into the second-level cache a line that is read after some thousand others.
[[gnu::always_inline]] inline void prefetch_late(const void* p) { __builtin_prefetch(p, 0, 2); }

/// The initial running maximum and mass of a query: at its sink, or at nothing.
inline float first_top(const AttendArgs& args, int query) { return args.has_sinks ? args.sink[query] : kFar; }
inline float first_mass(const AttendArgs& args) { return args.has_sinks ? 1.0F : 0.0F; }

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

// ---- windows of kWindowBlocks blocks that many queries see whole: sums stay in registers from block to
// block. Each number has the operations of attend_block, in its order. ----

/// Queries of a pass: the number for which registers hold two sums each.
inline constexpr int kWidePass = kPassQueries >= 8 ? 12 : kPassQueries;
static_assert(kWindowBlocks <= kLanes);

struct Window {
  std::int64_t offsets[kWindowBlocks + 1];  // bytes from the pool's first block; the last: the end
  float* query;                             // [queries, kWindowDims] at a fixed distance from each other
  float* weights;                           // [queries, kWindowRows] scores, then softmax weights
  float* factors;                           // [queries, kLanes] by block, for what came before it
};

/// Calls pass(Index<count>, first) for all queries, the largest passes first.
template <class Pass>
inline void in_passes(int queries, const Pass& pass) {
  int q = 0;
  for (; q + kWidePass <= queries; q += kWidePass) pass(Index<kWidePass>{}, q);
  for (; q + kPassQueries <= queries; q += kPassQueries) pass(Index<kPassQueries>{}, q);
  for (; q + kHalfPass <= queries; q += kHalfPass) pass(Index<kHalfPass>{}, q);
  for (; q < queries; ++q) pass(Index<1>{}, q);
}

/// block_scores of queries first .. first + kQueries. The first pass fetches the block's values; the others,
/// or the first if it is alone, fetch the next block's keys.
template <int kQueries, class Element>
inline void window_scores(const AttendArgs& args, const Window& window, int block, int first) {
  V sums[kQueries][2];
  unroll<kQueries>([&](auto q) FT_INLINE { sums[q][0] = sums[q][1] = splat(0); });
  const auto* keys = reinterpret_cast<const Element*>(args.keys + window.offsets[block]);
  const float* query = window.query + first * kWindowDims;
  const std::byte* next = args.keys + window.offsets[block + 1];
  const std::byte* ahead = first == 0 ? args.values + window.offsets[block] : next;
  const std::byte* also = first + kQueries == args.queries ? next : ahead;
  constexpr int kStep = kLine * sizeof(Element);
  for (int d = 0; d < args.head_dim; ++d, keys += kKeyRows, ++query) {
    prefetch_late(ahead + d * kStep);
    prefetch_late(also + d * kStep);
    const V low = from_element(keys);
    const V high = from_element(keys + kLanes);
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V x = splat(query[q * kWindowDims]);
      sums[q][0] = fma(x, low, sums[q][0]);
      sums[q][1] = fma(x, high, sums[q][1]);
    });
  }
  V scales[2] = {splat(args.scale), splat(args.scale)};
  if constexpr (sizeof(Element) == 1) {
    const float* own = scales_at(keys);
    scales[0] = mul(scales[0], load(own));
    scales[1] = mul(scales[1], load(own + kLanes));
  }
  float* scores = window.weights + first * kWindowRows + block * kKeyRows;
  unroll<kQueries>([&](auto q) FT_INLINE {
    store(scores + q * kWindowRows, mul(sums[q][0], scales[0]));
    store(scores + q * kWindowRows + kLanes, mul(sums[q][1], scales[1]));
  });
}

/// A query's scores become weights; its running maximum and mass are updated.
template <class Element>
inline void window_weights(const AttendArgs& args, const Window& window, int query, Running& run) {
  float* lanes = window.weights + query * kWindowRows;
  float tops[kWindowBlocks], less[kLanes] = {};
  float top = run.top[query];
  for (int block = 0; block < kWindowBlocks; ++block) {
    const float* lane = lanes + block * kKeyRows;
    const float block_top = largest(max(load(lane), load(lane + kLanes)));
    tops[block] = top > block_top ? top : block_top;
    less[block] = top - tops[block];
    top = tops[block];
  }
  run.top[query] = top;
  float* factors = window.factors + query * kLanes;
  store(factors, exp(load(less)));
  for (int block = 0; block < kWindowBlocks; ++block) {
    float* lane = lanes + block * kKeyRows;
    V low = exp(sub(load(lane), splat(tops[block])));
    V high = exp(sub(load(lane + kLanes), splat(tops[block])));
    run.mass[query] = __builtin_fmaf(run.mass[query], factors[block], sum(add(low, high)));
    if constexpr (sizeof(Element) == 1) {
      const auto* codes = reinterpret_cast<const Element*>(args.values + window.offsets[block]);
      const float* own = scales_at(codes + args.padded * kKeyRows);
      low = mul(low, load(own));
      high = mul(high, load(own + kLanes));
    }
    store(lane, low);
    store(lane + kLanes, high);
  }
}

/// Adds kWide vectors of columns from `at` on to the totals of queries first .. first + kQueries.
template <int kQueries, int kWide, class Element>
inline void window_values(const AttendArgs& args, const Window& window, int first, int at, Running& run) {
  V sums[kQueries][kWide];
  unroll<kQueries>([&](auto q) FT_INLINE {
    unroll<kWide>([&](auto w) FT_INLINE { sums[q][w] = load(run.total[first + q] + at + w * kLanes); });
  });
  const float* weights = window.weights + first * kWindowRows;
  for (int block = 0; block < kWindowBlocks; ++block) {
    const auto* values = reinterpret_cast<const Element*>(args.values + window.offsets[block]) + at;
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V factor = splat(window.factors[(first + q) * kLanes + block]);
      unroll<kWide>([&](auto w) FT_INLINE { sums[q][w] = mul(sums[q][w], factor); });
    });
    for (int j = 0; j < kKeyRows; ++j, values += args.padded, ++weights) {
      V line[kWide];
      prefetch(values + 8 * args.padded);
      unroll<kWide>([&](auto w) FT_INLINE { line[w] = from_element(values + w * kLanes); });
      unroll<kQueries>([&](auto q) FT_INLINE {
        const V weight = splat(weights[q * kWindowRows]);
        unroll<kWide>([&](auto w) FT_INLINE { sums[q][w] = fma(weight, line[w], sums[q][w]); });
      });
    }
  }
  unroll<kQueries>([&](auto q) FT_INLINE {
    unroll<kWide>([&](auto w) FT_INLINE { store(run.total[first + q] + at + w * kLanes, sums[q][w]); });
  });
}

template <class Element>
inline void attend_window(const AttendArgs& args, const Window& window, Running& run) {
  for (int block = 0; block < kWindowBlocks; ++block) {
    in_passes(args.queries, [&](auto count, int first)
                                FT_INLINE { window_scores<count, Element>(args, window, block, first); });
  }
  for (int q = 0; q < args.queries; ++q) window_weights<Element>(args, window, q, run);
  int at = 0;
  for (; at + 2 * kLanes <= args.padded; at += 2 * kLanes) {
    in_passes(args.queries, [&](auto count, int first) FT_INLINE {
      window_values<count, 2, Element>(args, window, first, at, run);
    });
  }
  if (at == args.padded) return;
  in_passes(args.queries, [&](auto count, int first)
                              FT_INLINE { window_values<count, 1, Element>(args, window, first, at, run); });
}

/// True if every query sees all positions from `begin` to the end of a window.
inline bool sees_window(const AttendArgs& args, std::int64_t begin) {
  return args.queries >= kManyQueries && args.head_dim <= kWindowDims &&
         args.first[args.queries - 1] <= begin && args.position[0] >= begin + kWindowRows - 1;
}

/// Attends to windows from `begin` on, as many as all queries see; returns where they end.
template <class Element>
inline std::int64_t attend_windows(const AttendArgs& args, std::int64_t begin, Running& run) {
  Window window;
  window.query = args.scratch + kQueryTile * (args.padded + kKeyRows);
  window.weights = window.query + kQueryTile * kWindowDims;
  window.factors = window.weights + kQueryTile * kWindowRows;
  for (int q = 0; q < args.queries; ++q) {
    for_vectors(args.head_dim, [&](std::int64_t i, auto get, auto put) {
      put(window.query + q * kWindowDims + i, get(args.query[q] + i));
    });
  }
  for (; sees_window(args, begin); begin += kWindowRows) {
    const std::int32_t* blocks = args.blocks + begin / kKeyRows;
    for (int i = 0; i < kWindowBlocks; ++i) window.offsets[i] = blocks[i] * args.block_stride;
    const bool more = args.position[args.queries - 1] >= begin + kWindowRows;
    window.offsets[kWindowBlocks] = blocks[more ? kWindowBlocks : 0] * args.block_stride;
    attend_window<Element>(args, window, run);
  }
  return begin;
}

template <class Element>
inline void attend_elements(const AttendArgs& args) {
  Running run;
  std::int64_t last = 0;
  const std::int64_t first_block = args.first[0] / kKeyRows * kKeyRows;
  for (int q = 0; q < args.queries; ++q) {
    run.top[q] = first_top(args, q);
    run.mass[q] = first_mass(args);
    run.total[q] = args.scratch + static_cast<std::int64_t>(q) * (args.padded + kKeyRows);
    run.weights[q] = run.total[q] + args.padded;
    for (int i = 0; i < args.padded; i += kLanes) store(run.total[q] + i, splat(0));
    if (args.position[q] > last) last = args.position[q];
  }
  for (std::int64_t begin = first_block; begin <= last; begin += kKeyRows) {
    if (sees_window(args, begin)) {
      begin = attend_windows<Element>(args, begin, run);
      if (begin > last) break;
    }
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

}  // namespace ft::cpu::FT_ISA
