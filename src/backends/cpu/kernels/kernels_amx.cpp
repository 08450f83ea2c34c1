// Products of many quantised rows by AMX: a tile product adds 16 rows times 16 outputs times the columns of
// a group, as exact integers. A vector of packed codes (kernels.h) holds four columns of 16 outputs: a row
// of the tile of weights. The groups are then added as in codes_rows of kernels_product.h: one chain for each
// output, the same operations in the same order. All else is avx512bf16's. Source: Intel 64 and IA-32
// Architectures Optimization Reference Manual, chapter 20.
#if defined(__x86_64__)
#define FT_ISA amx
#include "backends/cpu/kernels/vec_avx512.h"
// Must follow vec_*.h, which defines its lanes.
#include "backends/cpu/kernels/kernels_product.h"

namespace ft::cpu::amx {
namespace {

constexpr int kTileSide = 16;     // rows, and outputs, of a tile of sums
constexpr int kTileColumns = 64;  // of one tile product, at most
constexpr int kChunkGroups = 8;   // whose codes and sums are kept in a core's first cache
constexpr int kChunkColumns = 512;
constexpr int kAhead = 2;  // tile products in flight while the sums of a group are added
constexpr int kBuffers = 2 * kAhead;

// Tile registers; the intrinsics need literals. The last rows, if fewer than a tile, have separate registers,
// because setting new shapes takes as long as some products.
#define FT_SUMS 0
#define FT_ROWS 1
#define FT_CODES 2
#define FT_LAST_SUMS 3
#define FT_LAST_ROWS 4

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, int rows_of_tile, int bytes) {
    rows[tile] = static_cast<std::uint8_t>(rows_of_tile);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};

/// The memory for one chunk of groups of a block; it fits into the first cache.
struct alignas(64) Chunk {
  std::byte codes[kChunkColumns * kLanes];
  float scales[kChunkGroups][kLanes], biases[kChunkGroups][kLanes];
  const std::byte* tiles[kChunkGroups];  // each group's codes as bytes: here, or in the packed weights
  const std::byte* factors;              // of the groups that share the last ones
  // The next chunk, fetched while this one is multiplied, so the memory never waits for the tiles.
  const std::byte* ahead;
  int ahead_bytes;  // for each group
};

Source source(const CodesArgs& args) {
  if (args.scale_format == Format::kE8m0 || args.scale_format == Format::kE4m3) return Source::kFloats;
  if (args.group == kHalfUnitColumns) return Source::kHalf;
  return args.bits == 4 ? Source::kNibbles : args.bits == 8 ? Source::kBytes : Source::kUnpacked;
}

/// The codes of one group as bytes, four columns of 16 outputs after the other.
void unpack(Source from, const CodesArgs& args, const std::byte* w, std::byte* out) {
  const int bytes = args.group * kLanes;
  if (from == Source::kHalf) return unpack_half(w, args.bits, out);
  if (from == Source::kUnpacked) {
    for (int at = 0; at < bytes; at += kUnitColumns * kLanes, w += unit_bytes(args.bits))
      unpack_unit(w, args.bits, out + at);
    return;
  }
  for (int at = 0; at < bytes; at += 128, w += 64) {
    const Bytes packed = load_bytes(w);
    Bytes low = field<0, 15>(packed);
    Bytes high = field<4, 15>(packed);
    if (from == Source::kFloats) {
      low = lookup(low, kTwiceE2m1);
      high = lookup(high, kTwiceE2m1);
    }
    store_bytes(out + at, low);
    store_bytes(out + at + 64, high);
  }
}

/// Unpacks `count` groups from `first` on. `w` is their first byte; returns the first after them.
const std::byte* unpack_chunk(const CodesArgs& args, int first, int count, const std::byte* w, Chunk& chunk) {
  const Source from = source(args);
  const int code_bytes = args.group * kLanes * (from == Source::kFloats ? 4 : args.bits) / 8;
  const int scale_bytes = args.scale_format == Format::kF32 ? 64 : 32;
  const std::byte* scales = w;
  for (int g = 0; g < count; ++g) {
    if (from == Source::kFloats && g % kScaleGroups == 0) {
      scales = w;
      w += kScaleGroups * kLanes;
    }
    const int factored = args.factor_groups > 0 ? (first + g) % args.factor_groups : 1;
    if (factored == 0) {
      chunk.factors = w;
      w += factor_bytes(args.factor_groups, args.zero);
    }
    chunk.tiles[g] = w;
    if (from != Source::kBytes) {
      chunk.tiles[g] = chunk.codes + g * args.group * kLanes;
      unpack(from, args, w, chunk.codes + g * args.group * kLanes);
    }
    w += code_bytes;
    V scale, bias;
    if (from == Source::kFloats) {
      scale = half_scales(args.scale_format, scales);
      bias = mul(scale, splat(-12.0F));
      scales += kLanes;
    } else if (args.factor_groups > 0) {
      factored_scales(chunk.factors, args.factor_groups, args.zero, factored, scale, bias);
    } else {
      scale = load_values(args.scale_format, w);
      bias = load_values(args.scale_format, w + scale_bytes);
      w += 2 * scale_bytes;
    }
    store(chunk.scales[g], scale);
    store(chunk.biases[g], bias);
  }
  return w;
}

/// The dot products of one group for the tile's rows. kLast: for the last rows, which are fewer.
template <bool kLast>
inline void multiply(const CodesArgs& args, const std::byte* codes, const std::int8_t* rows,
                     std::int32_t (*dots)[kLanes]) {
  const int columns = args.group < kTileColumns ? args.group : kTileColumns;
  if constexpr (kLast) {
    _tile_zero(FT_LAST_SUMS);
  } else {
    _tile_zero(FT_SUMS);
  }
  for (int at = 0; at < args.group; at += columns) {
    _tile_loadd(FT_CODES, codes + at * kLanes, 64);
    if constexpr (kLast) {
      _tile_loadd(FT_LAST_ROWS, rows + at, args.group);
      _tile_dpbsud(FT_LAST_SUMS, FT_LAST_ROWS, FT_CODES);
    } else {
      _tile_loadd(FT_ROWS, rows + at, args.group);
      _tile_dpbsud(FT_SUMS, FT_ROWS, FT_CODES);
    }
  }
  if constexpr (kLast) {
    _tile_stored(FT_LAST_SUMS, dots, 64);
  } else {
    _tile_stored(FT_SUMS, dots, 64);
  }
}

/// Adds `count` groups from `first` on to the totals of kRows rows from `row` on. The products of the next
/// groups are in flight while the sums of this one are added. The first rows also fetch the next chunk.
template <int kRows>
void add_groups(const CodesArgs& args, int first, int count, int row, const Chunk& chunk,
                float (*totals)[kLanes]) {
  alignas(64) std::int32_t dots[kBuffers][kTileSide][kLanes];
  V total[kRows];
  unroll<kRows>([&](auto m) FT_INLINE { total[m] = load(totals[row + m]); });
  const float* scales = args.scales + static_cast<std::int64_t>(first) * args.rows + row;
  const float* sums = args.sums + static_cast<std::int64_t>(first) * args.rows + row;
  const std::int64_t step = static_cast<std::int64_t>(args.rows) * args.group;
  const std::int8_t* rows = args.codes + first * step + row * args.group;
  constexpr bool kLast = kRows < kTileSide;
  for (int g = 0; g < kAhead && g < count; ++g, rows += step)
    multiply<kLast>(args, chunk.tiles[g], rows, dots[g]);
  for (int g = 0; g < count; ++g, scales += args.rows, sums += args.rows) {
    const int next = g + kAhead;
    if (next < count) multiply<kLast>(args, chunk.tiles[next], rows, dots[next % kBuffers]);
    for (int at = 0; row == 0 && at < chunk.ahead_bytes; at += 64)
      prefetch(chunk.ahead + g * chunk.ahead_bytes + at);
    rows += step;
    const V scale = load(chunk.scales[g]);
    const V bias = load(chunk.biases[g]);
    unroll<kRows>([&](auto m) FT_INLINE {
      const I dot = {_mm512_load_si512(dots[g % kBuffers][m])};
      total[m] = fma(to_float(dot), mul(scale, splat(scales[m])), total[m]);
      total[m] = fma(bias, splat(sums[m]), total[m]);
    });
  }
  unroll<kRows>([&](auto m) FT_INLINE { store(totals[row + m], total[m]); });
}

using AddGroups = void (*)(const CodesArgs& args, int first, int count, int row, const Chunk& chunk,
                           float (*totals)[kLanes]);

void set_tiles(const CodesArgs& args, int last) {
  const int columns = args.group < kTileColumns ? args.group : kTileColumns;
  TileShapes shapes;
  shapes.set(FT_SUMS, kTileSide, 64);
  shapes.set(FT_ROWS, kTileSide, columns);
  shapes.set(FT_LAST_SUMS, last, 64);
  shapes.set(FT_LAST_ROWS, last, columns);
  shapes.set(FT_CODES, columns / 4, 64);
  asm volatile("" : : "m"(shapes));  // GCC 12 takes only 8 bytes of it for an input of the next line
  _tile_loadconfig(&shapes);
}

void codes_matrix(const CodesArgs& args) {
  static constexpr AddGroups kAdd[] = {add_groups<1>,  add_groups<2>,  add_groups<3>,  add_groups<4>,
                                       add_groups<5>,  add_groups<6>,  add_groups<7>,  add_groups<8>,
                                       add_groups<9>,  add_groups<10>, add_groups<11>, add_groups<12>,
                                       add_groups<13>, add_groups<14>, add_groups<15>, add_groups<16>};
  const int in_chunk = kChunkColumns / args.group < kChunkGroups ? kChunkColumns / args.group : kChunkGroups;
  const int last = (args.rows - 1) % kTileSide + 1;  // rows of the last tile
  Chunk chunk;
  alignas(64) float totals[kMatrixRows][kLanes];
  set_tiles(args, last);
  for (int b = 0; b < args.blocks; ++b) {
    const std::byte* w = args.weights + b * args.block_bytes;
    for (int m = 0; m < args.rows; ++m) store(totals[m], splat(0));
    for (int g = 0; g < args.groups; g += in_chunk) {
      const int count = args.groups - g < in_chunk ? args.groups - g : in_chunk;
      const std::byte* const end = unpack_chunk(args, g, count, w, chunk);
      chunk.ahead = end, chunk.ahead_bytes = static_cast<int>(end - w) / count;
      w = end;
      int row = 0;
      for (; row + kTileSide <= args.rows; row += kTileSide)
        add_groups<kTileSide>(args, g, count, row, chunk, totals);
      if (row < args.rows) kAdd[last - 1](args, g, count, row, chunk, totals);
    }
    for (int m = 0; m < args.rows; ++m) {
      store_block(args.out + m * args.out_stride + b * kLanes, load(totals[m]), args.outputs - b * kLanes);
    }
  }
  _tile_release();
}

}  // namespace

const Kernels& kernels() {
  static const Kernels kTable = [] {
    Kernels table = avx512bf16::kernels();
    table.name = "amx";
    table.codes_matrix = codes_matrix;
    return table;
  }();
  return kTable;
}

}  // namespace ft::cpu::amx
#endif
