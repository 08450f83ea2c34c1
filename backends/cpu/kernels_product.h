// Rows times packed weights. Included once by each kernels_*.cpp after its vec_*.h.
// Codes: per group the exact integer dot product of 16-bit activations and codes, then in ascending order of
// groups
//   acc = fma(float(dot), scale_w * scale_x, acc); acc = fma(bias_w, sum_x, acc)
// Plain: acc = fma(w, x, acc) in ascending order of columns, one chain an output.
// So one row's sums never depend on how many rows or blocks a call has. Source of the layout's idea: probes
// of sixteen interleaved outputs, which need no sum across lanes.
#pragma once

#include "backends/cpu/kernels.h"
#include "backends/cpu/unroll.h"

namespace ft::cpu::FT_ISA {

/// 16 codes, scales or biases behind them, or plain weights of one column.
inline V load_values(Format format, const std::byte* p) {
  if (format == Format::kBf16) return from_bf16(p);
  if (format == Format::kF16) return from_f16(p);
  float lane[kLanes];
  __builtin_memcpy(lane, p, sizeof lane);
  return load(lane);
}

inline void store_block(float* out, V value, int exist) {
  if (exist >= kLanes) {
    store(out, value);
  } else {
    store_partial(out, value, exist);
  }
}

inline constexpr int kPrefetchBytes = 4096;  // ahead of the reading; hides the memory's latency at one row

/// Dot products of 32 columns: kBits bytes * 16 / 2 of packed codes.
template <int kRows, int kBits, int kChains>
inline void dot_unit(const std::byte* w, const std::int16_t* x, std::int64_t x_stride,
                     I (&dots)[kRows][kChains]) {
  constexpr int kVectors = kBits;          // of 64 bytes
  constexpr int kColumns = 32 / kVectors;  // columns of a vector: 8 or 4
  unroll<kVectors>([&](auto v) FT_INLINE {
    const Words packed = load_words(w + 64 * v);
    prefetch(w + 64 * v + kPrefetchBytes);
    if constexpr (kBits == 4) {
      const Words part[4] = {field<0, 15>(packed), field<4, 15>(packed), field<8, 15>(packed),
                             field<12, 15>(packed)};
      unroll<kRows>([&](auto m) FT_INLINE {
        const std::int16_t* row = x + m * x_stride + v * kColumns;
        unroll<4>([&](auto s) FT_INLINE {
          dots[m][s % kChains] = dot_pair(dots[m][s % kChains], part[s], row + 2 * s);
        });
      });
    } else {
      const Words part[2] = {field<0, 255>(packed), field<8, 255>(packed)};
      unroll<kRows>([&](auto m) FT_INLINE {
        const std::int16_t* row = x + m * x_stride + v * kColumns;
        unroll<2>([&](auto s) FT_INLINE {
          I& dot = dots[m][(2 * v + s) % kChains];
          dot = dot_pair(dot, part[s], row + 2 * s);
        });
      });
    }
  });
}

template <int kRows, int kBits>
void codes_rows(const CodesArgs& args) {
  // One accumulator is a chain of dependent additions; few rows need several to fill the pipelines.
  constexpr int kChains = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  const std::int64_t columns = static_cast<std::int64_t>(args.group) * args.groups;
  const int units = args.group / 32;
  const int scale_bytes = args.scale_format == Format::kF32 ? 64 : 32;
  for (int b = 0; b < args.blocks; ++b) {
    const std::byte* w = args.weights + b * args.block_bytes;
    V total[kRows];
    unroll<kRows>([&](auto m) FT_INLINE { total[m] = splat(0); });
    for (int g = 0; g < args.groups; ++g) {
      I dots[kRows][kChains];
      unroll<kRows>([&](auto m)
                        FT_INLINE { unroll<kChains>([&](auto c) FT_INLINE { dots[m][c] = zero_int(); }); });
      const std::int16_t* x = args.codes + static_cast<std::int64_t>(g) * args.group;
      for (int u = 0; u < units; ++u, w += 64 * kBits, x += 32) {
        dot_unit<kRows, kBits, kChains>(w, x, columns, dots);
      }
      const V scale = load_values(args.scale_format, w);
      const V bias = load_values(args.scale_format, w + scale_bytes);
      prefetch(w + kPrefetchBytes);
      w += 2 * scale_bytes;
      unroll<kRows>([&](auto m) FT_INLINE {
        I dot = dots[m][0];
        unroll<kChains - 1>([&](auto before) FT_INLINE {
          constexpr int c = before + 1;
          dot = add(dot, dots[m][c]);
        });
        const std::int64_t at = static_cast<std::int64_t>(m) * args.groups + g;
        total[m] = fma(to_float(dot), mul(scale, splat(args.scales[at])), total[m]);
        total[m] = fma(bias, splat(args.sums[at]), total[m]);
      });
    }
    unroll<kRows>([&](auto m) FT_INLINE {
      store_block(args.out + m * args.out_stride + b * kLanes, total[m], args.outputs - b * kLanes);
    });
  }
}

/// kBlocks blocks at once, so that one row has several independent chains.
template <int kRows, int kBlocks>
void plain_rows(const PlainArgs& args, int first_block) {
  const int step = args.format == Format::kF32 ? 64 : 32;  // bytes of a column
  const std::byte* w = args.weights + first_block * args.block_bytes;
  V total[kBlocks][kRows];
  unroll<kBlocks>([&](auto b)
                      FT_INLINE { unroll<kRows>([&](auto m) FT_INLINE { total[b][m] = splat(0); }); });
  for (std::int64_t k = 0; k < args.columns; ++k, w += step) {
    V x[kRows];
    unroll<kRows>([&](auto m) FT_INLINE { x[m] = splat(args.in[m][k]); });
    unroll<kBlocks>([&](auto b) FT_INLINE {
      const V value = load_values(args.format, w + b * args.block_bytes);
      unroll<kRows>([&](auto m) FT_INLINE { total[b][m] = fma(value, x[m], total[b][m]); });
    });
  }
  unroll<kBlocks>([&](auto b) FT_INLINE {
    const int at = (first_block + b) * kLanes;
    unroll<kRows>([&](auto m) FT_INLINE {
      store_block(args.out + m * args.out_stride + at, total[b][m], args.outputs - at);
    });
  });
}

template <int kRows>
void plain_blocks(const PlainArgs& args) {
  constexpr int kWide = kPassRows < 8 ? 2 : kRows == 1 ? 8 : kRows <= 3 ? 4 : kRows <= 5 ? 3 : 2;
  int b = 0;
  for (; b + kWide <= args.blocks; b += kWide) plain_rows<kRows, kWide>(args, b);
  for (; b < args.blocks; ++b) plain_rows<kRows, 1>(args, b);
}

/// `rows`, or the most that this instruction set has registers for: names only instances that are needed.
constexpr int pass(int rows) { return rows < kPassRows ? rows : kPassRows; }

inline void codes_product(const CodesArgs& args) {
  using Call = void (*)(const CodesArgs&);
  static constexpr Call kFour[] = {codes_rows<pass(1), 4>, codes_rows<pass(2), 4>, codes_rows<pass(3), 4>,
                                   codes_rows<pass(4), 4>, codes_rows<pass(5), 4>, codes_rows<pass(6), 4>,
                                   codes_rows<pass(7), 4>, codes_rows<pass(8), 4>};
  static constexpr Call kEight[] = {codes_rows<pass(1), 8>, codes_rows<pass(2), 8>, codes_rows<pass(3), 8>,
                                    codes_rows<pass(4), 8>, codes_rows<pass(5), 8>, codes_rows<pass(6), 8>,
                                    codes_rows<pass(7), 8>, codes_rows<pass(8), 8>};
  const Call* calls = args.bits == 4 ? kFour : kEight;
  if constexpr (kPassRows >= kTileRows) {
    calls[args.rows - 1](args);
    return;
  }
  // Block by block, so that the passes after the first find the block in the cache.
  for (int b = 0; b < args.blocks; ++b) {
    CodesArgs one = args;
    one.weights += b * args.block_bytes;
    one.blocks = 1;
    one.out += b * kLanes;
    one.outputs -= b * kLanes;
    for (int first = 0; first < args.rows; first += kPassRows) {
      one.rows = pass(args.rows - first);
      calls[one.rows - 1](one);
      one.codes += static_cast<std::int64_t>(kPassRows) * args.group * args.groups;
      one.scales += static_cast<std::int64_t>(kPassRows) * args.groups;
      one.sums += static_cast<std::int64_t>(kPassRows) * args.groups;
      one.out += kPassRows * args.out_stride;
    }
  }
}

inline void plain_product(const PlainArgs& args) {
  using Call = void (*)(const PlainArgs&);
  static constexpr Call kCalls[] = {plain_blocks<pass(1)>, plain_blocks<pass(2)>, plain_blocks<pass(3)>,
                                    plain_blocks<pass(4)>, plain_blocks<pass(5)>, plain_blocks<pass(6)>,
                                    plain_blocks<pass(7)>, plain_blocks<pass(8)>};
  PlainArgs part = args;
  for (int first = 0; first < args.rows; first += kPassRows) {
    part.rows = pass(args.rows - first);
    kCalls[part.rows - 1](part);
    part.in += kPassRows;
    part.out += kPassRows * args.out_stride;
  }
}

inline void quantise(const float* in, int group, int groups, std::int16_t* codes, float* scales,
                     float* sums) {
  for (int g = 0; g < groups; ++g, in += group, codes += group) {
    V top = splat(0);
    for (int i = 0; i < group; i += kLanes) top = max(top, abs(load(in + i)));
    const float most = largest(top);
    const bool nothing = most < 1e-30F;  // so small that its reciprocal may overflow
    const float inverse = nothing ? 0.0F : 32767.0F / most;
    const float scale = nothing ? 0.0F : most / 32767.0F;
    I total = zero_int();
    for (int i = 0; i < group; i += kLanes) store_int16(codes + i, mul(load(in + i), splat(inverse)), &total);
    scales[g] = scale;
    sums[g] = scale * static_cast<float>(sum(total));
  }
}

}  // namespace ft::cpu::FT_ISA
