// The inner loops of the cpu backend, one table per instruction set. Every set gives the same bits: sixteen
// lanes, the same operations in the same order (kernels_impl.h), exact integers. So a row's result depends
// neither on the machine's instruction set nor on how many rows a call has. README.md says how to read a
// kernel. All are pure functions; shapes were checked when the program was compiled.
//
// Packed weights are in blocks of 16 outputs; outputs and columns that do not exist are zeros. A block begins
// `block_bytes` after the one before and has one of these layouts, in memory order:
//
//   codes   for each group of columns: its codes, 16 scales, 16 biases (in `scale_format`)
//   factors codes whose scales are products. For each CodesArgs::factor_groups groups: 16 factors of scales
//           and, unless `zero`, 16 of biases, as float16; [groups][16] int8 of scales and, unless `zero`, of
//           biases; zeros up to a multiple of 64 bytes; then each group's codes
//   floats  e2m1 codes (scale_format kE8m0 or kE4m3); for each four groups (fewer at the end):
//           scales [4 groups][16], always 64 bytes; then each group's codes as nibbles
//   pairs   bf16: [columns / 2][16 outputs][2 columns]; an odd last column is followed by a zero
//   plain   [columns][16 outputs] of 2 or 4 bytes
//   mxfp8   for each four groups of 32 (fewer at the end): scales [4 groups][16], always 64 bytes; then
//           [columns][16 outputs] of 1 byte
//
// The codes of a group are units of 32 columns, and a unit is one or two planes of 64-byte vectors. A group
// of 16 columns is half a unit: the first half of each plane's vectors. In each vector, byte 4r + j belongs
// to output r; its bit fields, from the lowest, are columns that are 4 apart:
//
//   plane    vectors  field s of byte 4r + j in vector v
//   bytes    8        8 bits: column 4v + j
//   nibbles  4        4 bits: column 8v + 4s + j     (s = 0, 1)
//   pairs    2        2 bits: column 16v + 4s + j    (s = 0 .. 3)
//   bits     1        1 bit:  column 4s + j          (s = 0 .. 7)
//
//   bits of a code  2      3           4        5              6               8
//   planes          pairs  pairs bits  nibbles  nibbles bits   nibbles pairs   bytes
//                          (two planes: the lower bits of each code, then the upper ones)
//
// A block of 4-bit codes in groups of 64 with bf16 scales, 576 bytes per group:
//
//   |<----------------- group 0 ------------------>|<----- group 1 ---- ...
//   +-------------+-------------+--------+---------+-------------+---- ...
//   | unit 0      | unit 1      | scales | biases  | unit 2      |
//   | columns     | columns     | 16 x 2 | 16 x 2  | columns     |
//   | 0 .. 31     | 32 .. 63    | bytes  | bytes   | 64 .. 95    |
//   +-------------+-------------+--------+---------+-------------+---- ...
//   | v0 v1 v2 v3 | 256 bytes
//        |
//        v   byte    0    1    2    3     4    5    6    7   ...   60   61   62   63
//            low     8    9   10   11     8    9   10   11   ...    8    9   10   11   <- column
//            high   12   13   14   15    12   13   14   15   ...   12   13   14   15   <- column
//                  |--- output 0 ----|  |--- output 1 ----|       |--- output 15 ---|
//
// Quantised rows are in tiles that share one read of the weights: [columns / 4][planes][4] int8. A row has
// one plane of 8-bit codes or, if `int16`, two for its int16 codes: code = 128 * first + second. Rows for
// codes_matrix are in tiles of [groups][rows][group] int8. Rows for
// bf16 weights are in tiles too: [columns / 2][rows][2 columns], float32 or, if pair_bytes is 4, bf16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/weight.h"

namespace ft::cpu {

inline constexpr int kLanes = 16;    // outputs of a block of packed weights
inline constexpr int kTileRows = 8;  // rows that share one read of a block
inline constexpr int kTilePlanes = 8;
inline constexpr int kMatrixRows = 64;  // rows of a tile of codes_matrix
inline constexpr int kUnitColumns = 32;
inline constexpr int kHalfUnitColumns = 16;  // of codes in groups of 16
inline constexpr int kPairColumnBytes = 64;  // of two columns of a block of bf16 weights
inline constexpr int kExactPairBytes = 8;    // of two columns of an unrounded row
inline constexpr int kPairBlocks = 3;        // bf16 blocks that suit one tile of rows best
inline constexpr int kScaleGroups = 4;       // groups whose one-byte scales are together
inline constexpr int kKeyRows = 32;          // positions of a key/value block (kBlockRows)
inline constexpr int kQueryTile = 32;        // queries that share one read of a key/value block
inline constexpr int kManyQueries = 12;      // that take whole windows of positions at once
inline constexpr int kWindowBlocks = 8;
inline constexpr int kWindowRows = kWindowBlocks * kKeyRows;
inline constexpr int kWindowDims = 528;  // largest head of a window, padded against equal cache sets

/// Bytes of the factors and integers of `groups` groups.
constexpr std::int64_t factor_bytes(int groups, int zero) {
  const std::int64_t bytes = std::int64_t{2 + groups} * kLanes * (zero != 0 ? 1 : 2);
  return (bytes + 63) / 64 * 64;
}

/// Products of one tile of quantised rows with packed codes. Planes 1 .. kTilePlanes.
struct CodesArgs {
  const std::byte* weights = nullptr;  // first block
  std::int64_t block_bytes = 0;
  int blocks = 0;
  int bits = 4;                // 2, 3, 4, 5, 6 or 8
  int group = 64, groups = 0;  // columns = group * groups; 16 if the codes are floats or of 4 or 6 bits
  Format scale_format = Format::kBf16;
  int factor_groups = 0;  // that share a factor; 0: scales and biases are stored
  int zero = 0;           // biases are -zero * scale; 0: products too
  bool int16 = false;
  const std::int8_t* codes = nullptr;  // [columns / 4][planes][4]
  const float* scales = nullptr;       // [groups][rows] value of one step of the row's codes
  const float* sums = nullptr;         // [groups][rows] sum of the group's values
  int rows = 0;                        // planes / 2 if int16
  float* out = nullptr;                // first row, first output of the first block
  std::int64_t out_stride = 0;
  int outputs = 0;  // that exist, from the first output of the first block on
};

/// Products of one tile of rows with bf16 weights. Rows 1 .. kTileRows.
struct PairsArgs {
  const std::byte* weights = nullptr;  // first block
  std::int64_t block_bytes = 0;
  int blocks = 0;
  std::int64_t pairs = 0;  // of columns
  bool exact = false;      // the rows were not rounded
  const std::byte* in = nullptr;
  int rows = 0;
  float* out = nullptr;  // first row, first output of the first block
  std::int64_t out_stride = 0;
  int outputs = 0;  // that exist, from the first output of the first block on
};

/// Writes one row to its place in a tile for bf16 weights.
struct PairArgs {
  const float* in = nullptr;  // [columns]
  std::int64_t columns = 0;
  bool exact = false;        // float32 unchanged; otherwise rounded to bf16, to nearest even
  std::byte* out = nullptr;  // the row's first pair
  int rows = 1;              // of the tile
};
/// Products of float32 rows with packed plain or mxfp8 weights. Rows 1 .. kTileRows.
struct PlainArgs {
  const std::byte* weights = nullptr;
  std::int64_t block_bytes = 0;
  int blocks = 0;
  Format format = Format::kF16;
  std::int64_t columns = 0;
  const float* const* in = nullptr;  // [rows] pointers
  int rows = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  int outputs = 0;
};

/// Softmax attention of up to kQueryTile queries that share a key/value head, block after block in order of
/// position. Key blocks are [head_dim, kKeyRows], value blocks [kKeyRows, padded head_dim]. With 16 bits an
/// element is float16. With 8 bits it is a code; each position has a separate scale, and the block's
/// [kKeyRows] float scales follow its codes.
struct AttendArgs {
  int bits = 16;                    // 16 or 8
  const std::byte* keys = nullptr;  // of block 0 of the pool, this key/value head
  const std::byte* values = nullptr;
  std::int64_t block_stride = 0;  // bytes from block to block, for both
  const std::int32_t* blocks = nullptr;
  int head_dim = 0;
  int padded = 0;  // head_dim rounded up to kLanes
  float scale = 0;
  int queries = 0;
  const float* query[kQueryTile] = {};     // [head_dim]
  std::int64_t position[kQueryTile] = {};  // the last that the query sees; ascending
  std::int64_t first[kQueryTile] = {};     // the first that it sees; ascending
  const float* gate[kQueryTile] = {};      // [head_dim], or null
  bool has_sinks = false;                  // a score without a value begins each query's softmax
  float sink[kQueryTile] = {};             // that score
  float* out[kQueryTile] = {};             // [head_dim]
  float* scratch = nullptr;                // [attend_floats(padded)]
};

/// Scratch of `attend`, in floats.
constexpr std::int64_t attend_floats(std::int64_t padded) {
  return kQueryTile * (padded + kKeyRows + kWindowDims + kWindowRows + kLanes);
}

/// The same attention by several workers that share a key/value head. A window of positions at a time, in
/// three parts with a barrier after each: blocks' scores, blocks' softmax weights, and sums of some columns.
/// Together they do the operations of `attend` in its order, so they give its bits.
inline constexpr int kShareBlocks = 128;  // of a window
inline constexpr int kSharePositions = kShareBlocks * kKeyRows;
inline constexpr int kShareColumns = 32;  // that one worker sums, a line of float16
struct AttendShare {
  AttendArgs of;                             // its scratch is not used
  std::int64_t first_block = 0, blocks = 0;  // of the window
  bool begins = false, ends = false;         // the first window, the last one
  float* weights = nullptr;                  // [kShareBlocks, kQueryTile, kKeyRows] scores, then weights
  float *tops = nullptr, *factors = nullptr, *sums = nullptr;  // [kQueryTile, kShareBlocks]
  float* top = nullptr;                                        // [kQueryTile] before the window
  float* total = nullptr;                                      // [kQueryTile, padded]
  float* mass = nullptr;                                       // [padded / kShareColumns, kQueryTile]
};

/// A tile of one attention head's recurrent state: [key_dim, width]. The width is a multiple of kLanes, at
/// most kDeltaTile.
inline constexpr int kDeltaTile = 64;

/// A token's operands and results for a tile: d = beta * (v - decay * state^T k), out = decay *
/// state^T q + key_query * d.
struct DeltaToken {
  float decay = 0, beta = 0, key_query = 0;  // key_query: k . q
  const float *k = nullptr, *q = nullptr;    // [key_dim]
  const float* v = nullptr;                  // [width]
  float *d = nullptr, *out = nullptr;        // [width]
};
/// The update by one token: state = decay * state + k d^T.
struct DeltaUpdate {
  float decay = 0;
  const float* k = nullptr;  // [key_dim]
  const float* d = nullptr;  // [width]
};
/// One pass over a tile: `count` updates in order, then the reads of `token`.
struct DeltaPass {
  const float* from = nullptr;
  float* to = nullptr;  // receives the tile after the updates; may be `from`; null: not needed
  int key_dim = 0, width = 0;
  const DeltaUpdate* updates = nullptr;
  int count = 0;                      // if above 1, or without a token, `to` must not be null
  const DeltaToken* token = nullptr;  // null: updates only
};

/// Writes one quantised row to its place in a tile.
struct QuantiseArgs {
  const float* in = nullptr;  // [group * groups]
  int group = 64, groups = 0;
  bool int16 = false;
  std::int8_t* codes = nullptr;  // the row's first plane, at its first column
  int quad_step = 4;             // bytes from four columns of the row to the next four
  std::int64_t group_step = 64;  // bytes from a group of the row to the next
  int rows = 1;                  // of the tile
  float* scales = nullptr;       // the row's, at its first group
  float* sums = nullptr;
};

struct Kernels {
  const char* name;
  int pair_bytes;  // of two columns of a row that is rounded for bf16 weights
  void (*rms_norm)(const float* in, const float* weight, int width, float eps, float* out);
  void (*layer_norm)(const float* in, const float* weight, const float* bias, int width, float eps,
                     float* out);
  /// out = norm(in) * weight * silu(gate).
  void (*gated_norm)(const float* in, const float* weight, const float* gate, int width, float eps,
                     float* out);
  /// out = in * scale / sqrt(sum(in^2) + 1e-6).
  void (*l2_norm)(const float* in, int width, float scale, float* out);
  void (*swiglu)(const float* gate, const float* up, std::int64_t count, float* out);
  void (*geglu)(const float* gate, const float* up, std::int64_t count, float* out);
  /// out = g * sigmoid(alpha * g) * (u + 1): g is the gate, at most `limit`; u is `up` in [-limit, limit].
  void (*clamped_swiglu)(const float* gate, const float* up, std::int64_t count, float alpha, float limit,
                         float* out);
  /// By tanh or, if `exact`, by erf.
  void (*gelu)(const float* in, std::int64_t count, bool exact, float* out);
  void (*add)(const float* a, const float* b, std::int64_t count, float* out);
  /// out[c] = silu(sum over t of kernel[t][c] * sources[t][c]), t < kernel width; a null source is zeros.
  void (*conv)(const float* const* sources, const float* kernel, std::int64_t kernel_stride, int kernel_width,
               int count, float* out);
  /// Per group scale = largest / 127 (16319 if int16), sums = scale * (sum of codes).
  void (*quantise)(const QuantiseArgs& args);
  void (*codes_product)(const CodesArgs& args);
  void (*pair)(const PairArgs& args);
  void (*pairs_product)(const PairsArgs& args);
  void (*plain_product)(const PlainArgs& args);
  void (*attend)(const AttendArgs& args);
  /// Blocks [first, last) of the window.
  void (*attend_scores)(const AttendShare& share, int first, int last);
  void (*attend_weights)(const AttendShare& share, int first, int last);
  /// Columns [kShareColumns * index, ...) of all blocks of the window.
  void (*attend_sums)(const AttendShare& share, int index);
  float (*dot)(const float* a, const float* b, int width);
  void (*delta_pass)(const DeltaPass& pass);
  /// values = cap * tanh(values / cap).
  void (*softcap)(float* values, std::int64_t count, float cap);
  /// out += in * factor.
  void (*add_scaled)(const float* in, float factor, std::int64_t count, float* out);
  /// out = exp(in - less).
  void (*exponentials)(const float* in, float less, std::int64_t count, float* out);
  /// out = in * sigmoid(gate).
  void (*sigmoid_gate)(const float* in, float gate, std::int64_t count, float* out);
  /// codes_product for 1 .. kMatrixRows rows of 8-bit codes; args.codes is [groups][rows][group]. Null: this
  /// set has no faster way for many rows.
  void (*codes_matrix)(const CodesArgs& args) = nullptr;
};

namespace portable {
const Kernels& kernels();
}
#if defined(__x86_64__)
namespace avx2 {
const Kernels& kernels();
}
namespace avxvnni {
const Kernels& kernels();
}
namespace avx512 {
const Kernels& kernels();
}
namespace avx512vnni {
const Kernels& kernels();
}
namespace avx512bf16 {
const Kernels& kernels();
}
namespace amx {
const Kernels& kernels();
}
#elif defined(__aarch64__)
namespace neon {
const Kernels& kernels();
}
namespace neondot {
const Kernels& kernels();
}
namespace neoni8mm {
const Kernels& kernels();
}
#endif

}  // namespace ft::cpu
