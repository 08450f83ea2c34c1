// Rows times packed weights. Each kernels_*.cpp includes it once, after its vec_*.h.
//   codes  per group, the exact integer dot product of the codes of activations and weights; then in
//          ascending order of groups
//            acc = fma(float(dot), scale_w * scale_x, acc); acc = fma(bias_w, sum_x, acc)
//          e2m1 codes become such integers too: twice the value, plus 12; so bias_w = -12 * scale_w
//   plain  acc = fma(w, x, acc) in ascending order of columns, one chain per output; mxfp8: w = code * scale
//   bf16   see kernels_pairs.h
// So one row's sums never depend on how many rows or blocks a call has. Sixteen interleaved outputs need no
// sum across lanes. The rows of a tile are interleaved, so one stream feeds them all.
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/unroll.h"

namespace ft::cpu::FT_ISA {

/// 16 scales or biases, or the plain weights of one column.
inline V load_values(Format format, const std::byte* p) {
  if (format == Format::kBf16) return from_bf16(p);
  if (format == Format::kF16) return from_f16(p);
  float lane[kLanes];
  __builtin_memcpy(lane, p, sizeof lane);
  return load(lane);
}

/// Half of 16 one-byte scales, because e2m1 codes are doubled.
inline V half_scales(Format format, const std::byte* p) {
  return format == Format::kE8m0 ? mul(from_e8m0(p), splat(0.5F)) : mul(from_e4m3(p), splat(128.0F));
}

/// The scales and biases of group `g` of those whose factors begin at `p`.
inline void factored_scales(const std::byte* p, int groups, int zero, int g, V& scale, V& bias) {
  const std::byte* integers = p + (zero != 0 ? 2 : 4) * kLanes + g * kLanes;
  scale = mul(from_f16(p), from_int8(reinterpret_cast<const std::int8_t*>(integers)));
  if (zero != 0) {
    bias = mul(scale, splat(static_cast<float>(-zero)));
    return;
  }
  integers += groups * kLanes;
  bias = mul(from_f16(p + 2 * kLanes), from_int8(reinterpret_cast<const std::int8_t*>(integers)));
}

inline void store_block(float* out, V value, int exist) {
  if (exist >= kLanes) {
    store(out, value);
  } else {
    store_partial(out, value, exist);
  }
}

inline constexpr int kPrefetchBytes = 4096;  // read-ahead; hides the memory's latency at one row

enum class Source { kNibbles, kFloats, kBytes, kUnpacked, kHalf };

/// 12 + 2 * value of each e2m1 code.
inline constexpr std::uint8_t kTwiceE2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/// Columns of one dot_unit; 16 for floats, because their groups may have 16, and for codes in groups of 16.
constexpr int unit_columns(Source source) {
  return source == Source::kFloats || source == Source::kHalf ? kHalfUnitColumns : kUnitColumns;
}

/// Bytes of one unit's codes of 16 outputs.
constexpr int unit_bytes(int bits) { return kUnitColumns * kLanes * bits / 8; }

/// One unit's codes as bytes: [columns / 4][64]. For 2, 3, 5 and 6 bits.
inline void unpack_unit(const std::byte* w, int bits, std::byte* out) {
  const bool low_nibbles = bits >= 4;
  if (low_nibbles) {
    for (int v = 0; v < 4; ++v) {
      const Bytes packed = load_bytes(w + 64 * v);
      store_bytes(out + 128 * v, field<0, 15>(packed));
      store_bytes(out + 128 * v + 64, field<4, 15>(packed));
    }
  } else {
    for (int v = 0; v < 2; ++v) {
      const Bytes packed = load_bytes(w + 64 * v);
      store_bytes(out + 256 * v, field<0, 3>(packed));
      store_bytes(out + 256 * v + 64, field<2, 3>(packed));
      store_bytes(out + 256 * v + 128, field<4, 3>(packed));
      store_bytes(out + 256 * v + 192, field<6, 3>(packed));
    }
  }
  const std::byte* upper = w + (low_nibbles ? 256 : 128);
  if (bits == 3 || bits == 5) {
    const Bytes packed = load_bytes(upper);
    unroll<8>([&](auto s) FT_INLINE {
      const Bytes low = load_bytes(out + 64 * s);
      const Bytes high = field<s, 1>(packed);
      store_bytes(out + 64 * s, low_nibbles ? join<4>(low, high) : join<2>(low, high));
    });
  } else if (bits == 6) {
    for (int v = 0; v < 2; ++v) {
      const Bytes packed = load_bytes(upper + 64 * v);
      unroll<4>([&](auto s) FT_INLINE {
        std::byte* at = out + 256 * v + 64 * s;
        store_bytes(at, join<4>(load_bytes(at), field<2 * s, 3>(packed)));
      });
    }
  }
}

/// The codes of half a unit as bytes: [columns / 4][64]. For 4 and 6 bits.
inline void unpack_half(const std::byte* w, int bits, std::byte* out) {
  for (int v = 0; v < 2; ++v) {
    const Bytes packed = load_bytes(w + 64 * v);
    store_bytes(out + 128 * v, field<0, 15>(packed));
    store_bytes(out + 128 * v + 64, field<4, 15>(packed));
  }
  if (bits == 4) return;
  const Bytes packed = load_bytes(w + 128);
  unroll<4>([&](auto s) FT_INLINE {
    std::byte* at = out + 64 * s;
    store_bytes(at, join<4>(load_bytes(at), field<2 * s, 3>(packed)));
  });
}

/// Dot products over the columns of one unit. `step`: bytes between groups of four columns in the tile.
template <int kPlanes, Source kSource, int kChains>
inline void dot_unit(const std::byte* w, const std::int8_t* x, int step, I (&dots)[kPlanes][kChains]) {
  if constexpr (kSource == Source::kNibbles || kSource == Source::kFloats) {
    unroll<unit_columns(kSource) / 8>([&](auto v) FT_INLINE {
      const Bytes packed = load_bytes(w + 64 * v);
      prefetch(w + 64 * v + kPrefetchBytes);
      Bytes low = field<0, 15>(packed);
      Bytes high = field<4, 15>(packed);
      if constexpr (kSource == Source::kFloats) {
        low = lookup(low, kTwiceE2m1);
        high = lookup(high, kTwiceE2m1);
      }
      unroll<kPlanes>([&](auto m) FT_INLINE {
        I& first = dots[m][2 * v % kChains];
        first = dot_quad<false>(first, low, x + 2 * v * step + 4 * m);
        I& second = dots[m][(2 * v + 1) % kChains];
        second = dot_quad<false>(second, high, x + (2 * v + 1) * step + 4 * m);
      });
    });
  } else {
    unroll<unit_columns(kSource) / 4>([&](auto v) FT_INLINE {
      const Bytes codes = load_bytes(w + 64 * v);
      if constexpr (kSource == Source::kBytes) prefetch(w + 64 * v + kPrefetchBytes);
      unroll<kPlanes>([&](auto m) FT_INLINE {
        I& dot = dots[m][v % kChains];
        dot = dot_quad < kSource == Source::kBytes > (dot, codes, x + v * step + 4 * m);
      });
    });
  }
}

/// Dot products over 16 columns of 4 or 6 bits; the codes stay in registers.
template <int kPlanes, int kChains>
inline void dot_half(const std::byte* w, int bits, const std::int8_t* x, int step,
                     I (&dots)[kPlanes][kChains]) {
  unroll<2>([&](auto v) FT_INLINE {
    const Bytes packed = load_bytes(w + 64 * v);
    Bytes low = field<0, 15>(packed);
    Bytes high = field<4, 15>(packed);
    if (bits == 6) {
      const Bytes upper = load_bytes(w + 128);
      low = join<4>(low, field<4 * v, 3>(upper));
      high = join<4>(high, field<4 * v + 2, 3>(upper));
    }
    unroll<kPlanes>([&](auto m) FT_INLINE {
      I& first = dots[m][2 * v % kChains];
      first = dot_quad<false>(first, low, x + 2 * v * step + 4 * m);
      I& second = dots[m][(2 * v + 1) % kChains];
      second = dot_quad<false>(second, high, x + (2 * v + 1) * step + 4 * m);
    });
  });
}

/// The scales and biases of the group whose codes end at `w`. `scales`: of this and the next groups, for
/// layouts with the scales of several groups in one place; `factored`: which of the groups that share one.
template <Source kSource>
inline void group_scales(const CodesArgs& args, int factored, const std::byte*& w, const std::byte*& scales,
                         V& scale, V& bias) {
  if constexpr (kSource == Source::kFloats) {
    scale = half_scales(args.scale_format, scales);
    bias = mul(scale, splat(-12.0F));
    scales += kLanes;
    return;
  }
  if (args.factor_groups > 0)
    return factored_scales(scales, args.factor_groups, args.zero, factored, scale, bias);
  const int bytes = args.scale_format == Format::kF32 ? 64 : 32;
  scale = load_values(args.scale_format, w);
  bias = load_values(args.scale_format, w + bytes);
  prefetch(w + kPrefetchBytes);
  w += 2 * bytes;
}

/// kRows rows of the tile, from the row that args.codes points to.
template <int kRows, Source kSource, bool kInt16>
void codes_rows(const CodesArgs& args, int tile_rows) {
  constexpr int kPlanes = kInt16 ? 2 * kRows : kRows;
  // One accumulator is a chain of dependent additions, so few planes need several to fill the pipelines.
  constexpr int kChains = kPlanes == 1 ? 4 : kPlanes <= 3 ? 2 : 1;
  const int step = kPassRows >= kTileRows ? 4 * kPlanes : 4 * (kInt16 ? 2 * tile_rows : tile_rows);
  const int scale_step = kPassRows >= kTileRows ? kRows : tile_rows;
  const int units = args.group / unit_columns(kSource);
  const std::int64_t header = factor_bytes(args.factor_groups, args.zero);
  std::byte unpacked[kUnitColumns * kLanes];
  for (int b = 0; b < args.blocks; ++b) {
    const std::byte* w = args.weights + b * args.block_bytes;
    const std::int8_t* x = args.codes;
    const std::byte* scales = w;        // for floats and factors: those of the next groups
    int factored = args.factor_groups;  // groups since `scales`
    V total[kRows];
    unroll<kRows>([&](auto m) FT_INLINE { total[m] = splat(0); });
    for (int g = 0; g < args.groups; ++g) {
      if (kSource == Source::kFloats && g % kScaleGroups == 0) {
        scales = w;
        prefetch(w + kPrefetchBytes);
        w += kScaleGroups * kLanes;
      }
      if (kSource != Source::kFloats && args.factor_groups > 0 && factored++ == args.factor_groups) {
        scales = w, factored = 1;
        for (int at = 0; at < header; at += 64) prefetch(w + at + kPrefetchBytes);
        w += header;
      }
      I dots[kPlanes][kChains];
      unroll<kPlanes>([&](auto m)
                          FT_INLINE { unroll<kChains>([&](auto c) FT_INLINE { dots[m][c] = zero_int(); }); });
      for (int u = 0; u < units; ++u, x += unit_columns(kSource) / 4 * step) {
        if constexpr (kSource == Source::kHalf) {
          dot_half(w, args.bits, x, step, dots);
          for (int at = 0; at < unit_bytes(args.bits) / 2; at += 64) prefetch(w + at + kPrefetchBytes);
          w += unit_bytes(args.bits) / 2;
        } else if constexpr (kSource == Source::kUnpacked) {
          unpack_unit(w, args.bits, unpacked);
          dot_unit<kPlanes, kSource, kChains>(unpacked, x, step, dots);
          for (int at = 0; at < unit_bytes(args.bits); at += 64) prefetch(w + at + kPrefetchBytes);
          w += unit_bytes(args.bits);
        } else {
          dot_unit<kPlanes, kSource, kChains>(w, x, step, dots);
          w += unit_columns(kSource) * kLanes / (kSource == Source::kBytes ? 1 : 2);
        }
      }
      V scale, bias;
      group_scales<kSource>(args, factored - 1, w, scales, scale, bias);
      unroll<kPlanes>([&](auto m) FT_INLINE {
        unroll<kChains - 1>([&](auto before) FT_INLINE {
          constexpr int c = before + 1;
          dots[m][0] = add(dots[m][0], dots[m][c]);
        });
      });
      unroll<kRows>([&](auto m) FT_INLINE {
        I dot = dots[kInt16 ? 2 * m : m][0];
        if constexpr (kInt16) dot = add(shift_left<7>(dot), dots[2 * m + 1][0]);
        const int at = g * scale_step + m;
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

/// The same for mxfp8.
template <int kRows, int kBlocks>
void mxfp8_rows(const PlainArgs& args, int first_block) {
  constexpr int kGroup = 32;
  const std::byte* w = args.weights + first_block * args.block_bytes;
  const std::byte* scales = w;
  V total[kBlocks][kRows];
  unroll<kBlocks>([&](auto b)
                      FT_INLINE { unroll<kRows>([&](auto m) FT_INLINE { total[b][m] = splat(0); }); });
  for (std::int64_t g = 0; g < args.columns / kGroup; ++g, scales += kLanes) {
    if (g % kScaleGroups == 0) {
      scales = w;
      w += kScaleGroups * kLanes;
    }
    V scale[kBlocks];
    unroll<kBlocks>(
        [&](auto b) FT_INLINE { scale[b] = mul(from_e8m0(scales + b * args.block_bytes), splat(256.0F)); });
    for (std::int64_t k = g * kGroup; k < (g + 1) * kGroup; ++k, w += kLanes) {
      V x[kRows];
      unroll<kRows>([&](auto m) FT_INLINE { x[m] = splat(args.in[m][k]); });
      unroll<kBlocks>([&](auto b) FT_INLINE {
        const V value = mul(from_e4m3(w + b * args.block_bytes), scale[b]);
        unroll<kRows>([&](auto m) FT_INLINE { total[b][m] = fma(value, x[m], total[b][m]); });
      });
    }
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
  if (args.format == Format::kMxfp8) {
    for (; b + kWide <= args.blocks; b += kWide) mxfp8_rows<kRows, kWide>(args, b);
    for (; b < args.blocks; ++b) mxfp8_rows<kRows, 1>(args, b);
    return;
  }
  for (; b + kWide <= args.blocks; b += kWide) plain_rows<kRows, kWide>(args, b);
  for (; b < args.blocks; ++b) plain_rows<kRows, 1>(args, b);
}

/// `rows`, or the maximum that this instruction set has registers for; only needed instances are named.
constexpr int pass(int rows) { return rows < kPassRows ? rows : kPassRows; }
constexpr int int16_pass(int rows) {
  return 2 * rows <= kPassRows || rows == 1 ? rows : int16_pass(rows - 1);
}

using CodesCall = void (*)(const CodesArgs& args, int tile_rows);

template <Source kSource>
inline CodesCall codes_call(int rows, bool int16) {
  static constexpr CodesCall kWhole[] = {
      codes_rows<pass(1), kSource, false>, codes_rows<pass(2), kSource, false>,
      codes_rows<pass(3), kSource, false>, codes_rows<pass(4), kSource, false>,
      codes_rows<pass(5), kSource, false>, codes_rows<pass(6), kSource, false>,
      codes_rows<pass(7), kSource, false>, codes_rows<pass(8), kSource, false>};
  static constexpr CodesCall kInt16[] = {
      codes_rows<int16_pass(1), kSource, true>, codes_rows<int16_pass(2), kSource, true>,
      codes_rows<int16_pass(3), kSource, true>, codes_rows<int16_pass(4), kSource, true>};
  return int16 ? kInt16[rows - 1] : kWhole[rows - 1];
}

inline void codes_product(const CodesArgs& args) {
  const auto call = [&args](int rows) {
    const bool floats = args.scale_format == Format::kE8m0 || args.scale_format == Format::kE4m3;
    return floats                           ? codes_call<Source::kFloats>(rows, args.int16)
           : args.group == kHalfUnitColumns ? codes_call<Source::kHalf>(rows, args.int16)
           : args.bits == 4                 ? codes_call<Source::kNibbles>(rows, args.int16)
           : args.bits == 8                 ? codes_call<Source::kBytes>(rows, args.int16)
                                            : codes_call<Source::kUnpacked>(rows, args.int16);
  };
  if constexpr (kPassRows >= kTileRows) {
    call(args.rows)(args, args.rows);
    return;
  }
  // Block by block, so that later passes find the block in the cache.
  const int most = args.int16 ? int16_pass(4) : pass(kTileRows);
  for (int b = 0; b < args.blocks; ++b) {
    CodesArgs one = args;
    one.weights += b * args.block_bytes;
    one.blocks = 1;
    one.out += b * kLanes;
    one.outputs -= b * kLanes;
    for (int first = 0; first < args.rows; first += most) {
      one.rows = args.rows - first < most ? args.rows - first : most;
      call(one.rows)(one, args.rows);
      one.codes += 4 * (args.int16 ? 2 : 1) * most;
      one.scales += most;
      one.sums += most;
      one.out += most * args.out_stride;
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

/// Writes the codes of 16 columns to their places, four bytes at a time.
inline void place_quads(I codes, std::int8_t* to, int step) {
  std::int8_t bytes[kLanes];
  store_int8(bytes, codes);
  for (int q = 0; q < 4; ++q) __builtin_memcpy(to + q * step, bytes + 4 * q, 4);
}

inline void quantise(const QuantiseArgs& args) {
  const float max_code = args.int16 ? 16319.0F : 127.0F;
  const int step = args.quad_step;
  const float* in = args.in;
  for (int g = 0; g < args.groups; ++g, in += args.group) {
    V top = splat(0);
    for (int i = 0; i < args.group; i += kLanes) top = max(top, abs(load(in + i)));
    const float most = largest(top);
    const bool nothing = most < 1e-30F;  // so small that its reciprocal may overflow
    const float inverse = nothing ? 0.0F : max_code / most;
    const float scale = nothing ? 0.0F : most / max_code;
    I total = zero_int();
    std::int8_t* codes = args.codes + g * args.group_step;
    for (int i = 0; i < args.group; i += kLanes, codes += 4 * step) {
      const I code = to_int(mul(load(in + i), splat(inverse)));
      total = add(total, code);
      if (args.int16) {
        const I first = shift_right<7>(add(code, splat_int(64)));
        place_quads(first, codes, step);
        place_quads(sub(code, shift_left<7>(first)), codes + 4, step);
      } else {
        place_quads(code, codes, step);
      }
    }
    args.scales[g * args.rows] = scale;
    args.sums[g * args.rows] = scale * static_cast<float>(sum(total));
  }
}

}  // namespace ft::cpu::FT_ISA
