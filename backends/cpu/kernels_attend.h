// Attention over paged keys and values. Included once by each kernels_*.cpp.
// A query's softmax is taken block by block (kKeyRows positions, fixed by position alone) with the running
// maximum of Milakov and Gimelshein 2018; within a block positions ascend. Queries of a call share the reads,
// nothing else.
#pragma once

#include "backends/cpu/kernels.h"
#include "backends/cpu/unroll.h"

namespace ft::cpu::FT_ISA {

inline constexpr float kFar = -3.0e38F;  // below every score
inline constexpr int kHalfPass = kPassQueries > 1 ? kPassQueries / 2 : 1;
inline constexpr int kLine = 32;  // elements of a cache line

/// scores[q] [kKeyRows] = scale * (query . key) for all positions of a block, dims ascending. Meanwhile the
/// block's values, a line a dim, are fetched.
template <int kQueries>
inline void block_scores(const std::uint16_t* keys, const std::uint16_t* values, const float* const* query,
                         int head_dim, float scale, float* const* scores) {
  V sums[kQueries][2];
  unroll<kQueries>([&](auto q) FT_INLINE { sums[q][0] = sums[q][1] = splat(0); });
  for (int d = 0; d < head_dim; ++d, keys += kKeyRows) {
    const V low = from_f16(keys);
    const V high = from_f16(keys + kLanes);
    prefetch(values + d * kLine);
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V x = splat(query[q][d]);
      sums[q][0] = fma(x, low, sums[q][0]);
      sums[q][1] = fma(x, high, sums[q][1]);
    });
  }
  unroll<kQueries>([&](auto q) FT_INLINE {
    store(scores[q], mul(sums[q][0], splat(scale)));
    store(scores[q] + kLanes, mul(sums[q][1], splat(scale)));
  });
}

/// total = total * factor + sum over the block's first `count` positions of weight * value. Meanwhile the
/// next block's keys from `next` on are fetched, as many as there are values.
template <int kQueries, int kWide>
inline void block_values(const std::uint16_t* values, const std::uint16_t* next, int padded, int count,
                         const float* const* weights, const float* factors, float* const* totals, int at) {
  V sums[kQueries][kWide];
  unroll<kQueries>([&](auto q) FT_INLINE {
    unroll<kWide>([&](auto w)
                      FT_INLINE { sums[q][w] = mul(load(totals[q] + at + w * kLanes), splat(factors[q])); });
  });
  const std::uint16_t* line = values + at;
  for (int j = 0; j < count; ++j, line += padded) {
    unroll<(kWide + 1) / 2>([&](auto i) FT_INLINE { prefetch(next + (j * ((kWide + 1) / 2) + i) * kLine); });
    unroll<kQueries>([&](auto q) FT_INLINE {
      const V weight = splat(weights[q][j]);
      unroll<kWide>([&](auto w)
                        FT_INLINE { sums[q][w] = fma(weight, from_f16(line + w * kLanes), sums[q][w]); });
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

/// One block for queries first .. first + kQueries, of which every one sees `count` positions.
template <int kQueries>
inline void attend_block(const AttendArgs& args, std::int64_t offset, std::int64_t next_offset, int first,
                         int count, Running& run) {
  const std::uint16_t* values = args.values + offset;
  const std::uint16_t* next = args.keys + next_offset;
  block_scores<kQueries>(args.keys + offset, values, args.query + first, args.head_dim, args.scale,
                         run.weights + first);
  float factors[kQueries];
  const float* weights[kQueries];
  float* totals[kQueries];
  for (int q = 0; q < kQueries; ++q) {
    const int at = first + q;
    float* lane = run.weights[at];
    for (int j = count; j < kKeyRows; ++j) lane[j] = kFar;
    const V low = load(lane);
    const V high = load(lane + kLanes);
    const float block_top = largest(max(low, high));
    const float top = run.top[at] > block_top ? run.top[at] : block_top;
    V both[2] = {exp(sub(low, splat(top))), exp(sub(high, splat(top)))};
    store(lane, both[0]);
    store(lane + kLanes, both[1]);
    for (int j = count; j < kKeyRows; ++j) lane[j] = 0;
    float gone[kLanes];
    store(gone, exp(splat(run.top[at] - top)));
    factors[q] = gone[0];
    run.mass[at] = __builtin_fmaf(run.mass[at], factors[q], sum(add(load(lane), load(lane + kLanes))));
    run.top[at] = top;
    weights[q] = lane;
    totals[q] = run.total[at];
  }
  constexpr int kWide = kQueries > 4 ? 2 : 4;  // as many sums as there are registers for
  int at = 0;
  for (; at + kWide * kLanes <= args.padded; at += kWide * kLanes) {
    block_values<kQueries, kWide>(values, next + at * kKeyRows, args.padded, count, weights, factors, totals,
                                  at);
  }
  for (; at < args.padded; at += kLanes) {
    block_values<kQueries, 1>(values, next + at * kKeyRows, args.padded, count, weights, factors, totals, at);
  }
}

inline void attend(const AttendArgs& args) {
  Running run;
  std::int64_t last = 0;
  for (int q = 0; q < args.queries; ++q) {
    run.top[q] = kFar;
    run.mass[q] = 0;
    run.total[q] = args.scratch + static_cast<std::int64_t>(q) * (args.padded + kKeyRows);
    run.weights[q] = run.total[q] + args.padded;
    for (int i = 0; i < args.padded; i += kLanes) store(run.total[q] + i, splat(0));
    if (args.position[q] > last) last = args.position[q];
  }
  for (std::int64_t begin = 0; begin <= last; begin += kKeyRows) {
    const std::int64_t offset = args.blocks[begin / kKeyRows] * args.block_stride;
    const bool more = begin + kKeyRows <= last;
    const std::int64_t next = more ? args.blocks[begin / kKeyRows + 1] * args.block_stride : offset;
    const auto seen = [&](int q) FT_INLINE {
      const std::int64_t count = args.position[q] + 1 - begin;
      return count < kKeyRows ? static_cast<int>(count) : kKeyRows;
    };
    for (int q = 0; q < args.queries;) {
      const int count = seen(q);
      // Positions ascend, so equal ends mean equal queries in between.
      const auto alike = [&](int queries) FT_INLINE {
        return q + queries <= args.queries && seen(q + queries - 1) == count;
      };
      const int queries = alike(kPassQueries) ? kPassQueries : alike(kHalfPass) ? kHalfPass : 1;
      if (count > 0) {
        if (queries == kPassQueries) {
          attend_block<kPassQueries>(args, offset, next, q, count, run);
        } else if (queries == kHalfPass) {
          attend_block<kHalfPass>(args, offset, next, q, count, run);
        } else {
          attend_block<1>(args, offset, next, q, count, run);
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

}  // namespace ft::cpu::FT_ISA
