// Layouts of dynamic shared memory. The host gets sizes from these functions, kernels get offsets. Also the
// sizes of packed records (layout.cuh).
#pragma once

#include "backends/cuda/arguments.h"

namespace ft::cuda {

/// A record holds one group of a tile: the codes, then 16 scales and biases.
FT_ON_BOTH int record_codes(int bits, int group) { return kTileOutputs / 8 * group * bits; }
FT_ON_BOTH int scale_pair_bytes(int scale_type) { return scale_type == kFloatScales ? 8 : 4; }
FT_ON_BOTH int record_bytes(int bits, int group, int scale_type) {
  return record_codes(bits, group) + kTileOutputs * scale_pair_bytes(scale_type);
}
/// An e2m1 record holds the codes and 16 one-byte scales.
constexpr int kSmallFloatGroup = 32, kSmallFloatCodes = record_codes(4, kSmallFloatGroup),
              kSmallFloatRecord = kSmallFloatCodes + kTileOutputs;
constexpr int kStreamedGroup = 64;  // Hopper kernels for 4 bits
constexpr int kStreamedRecord = record_bytes(4, kStreamedGroup, kBf16Scales);
constexpr int kShortGroup = 32;     // Hopper kernels for 4 and 8 bits
constexpr int kShortestGroup = 16;  // the same; half a step of the matrix instruction
/// The codes of one row and the scales of eight rows have the same size in a group.
constexpr int kGroupBytes = kStreamedGroup, kGroupScaleBytes = kScaleFloats * 4;
static_assert(kGroupBytes == kGroupScaleBytes);
constexpr int kWarpSumBytes = 32 * 4 * 4;  // a tile by eight rows: four floats a lane
constexpr int kBarrierBytes = 8;

// ---- hopper_linear.cu: ring of records, codes and scales of x, partial sums, barriers ----

constexpr int kStreamThreads = 320, kStreamSums = 2;  // buffers of partial sums

struct StreamLayout {
  int x, scales, sums, barriers, bytes;
};
/// The padding puts neighbouring rows into different banks. `input`: bytes of a code or a half.
FT_ON_BOTH int stream_row_bytes(int k, int group, int input) {
  if (input == 2) return group == kStreamedGroup ? 2 * k + 16 : (2 * k + 127) / 128 * 128 + 64;
  return group == kStreamedGroup ? k + 64 : (k + 127) / 128 * 128 + group;
}
FT_ON_BOTH StreamLayout stream_layout(const StreamArgs& p, int columns, int chunk, int group, int record,
                                      int input) {
  StreamLayout at{};
  const int k = p.linear.groups * group;
  at.x = p.stages * chunk * kSplitK * record;
  at.scales = at.x + p.linear.rows * stream_row_bytes(k, group, input);
  at.sums = at.scales + columns * (group == kStreamedGroup ? k : p.linear.groups * kGroupScaleBytes);
  at.barriers = at.sums + kStreamSums * kSplitK * kWarpSumBytes * columns;
  at.bytes = at.barriers + kBarrierBytes * (2 * p.stages + 2 * kStreamSums + 1);
  return at;
}

// ---- hopper_rows.cu: ring of records, codes and scales of x in a slice, slices of tiles, barriers ----

constexpr int kSplitKThreads = 352, kSplitKChunk = 3, kSplitKSums = 3;  // groups in a stage; sum buffers

struct SplitKLayout {
  int x, x_stride, scales, sums, barriers, bytes;
};
/// Tiles that a warp multiplies at once with the codes it has read.
FT_ON_BOTH int held_tiles(int columns) { return columns <= 4 ? 2 : 1; }
FT_ON_BOTH int splitk_stage_bytes(int columns) {
  return 8 * held_tiles(columns) * kSplitKChunk * kStreamedRecord;
}
/// All blocks of a cluster use the layout of the largest slice.
FT_ON_BOTH SplitKLayout splitk_layout(const SplitKGemmArgs& p, int columns) {
  SplitKLayout at{};
  const int groups = slice_groups(p.linear.groups);
  at.x = p.stages * splitk_stage_bytes(columns);
  at.x_stride = groups * kGroupBytes + (groups % 2 == 0 ? 64 : 0);  // rows fall into different banks
  at.scales = at.x + p.linear.rows * at.x_stride;
  at.sums = at.scales + columns * groups * kGroupScaleBytes;
  at.barriers = at.sums + kSplitKSums * kSplitK * columns * kWarpSumBytes;
  at.bytes = at.barriers + kBarrierBytes * (2 * p.stages + 2 * kSplitKSums + 1);
  return at;
}

// ---- gemm.cu: sums of finished slices, then stages of one group ----

constexpr int kGemmThreads = 256, kGemmTiles = 8;  // tiles in a block

FT_ON_BOTH int gemm_sum_bytes(int rows) { return kGemmTiles * kTileOutputs * rows * 4; }
FT_ON_BOTH int gemm_stage_bytes(int bits, int group, int scale_type, int rows) {
  return kGemmTiles * record_bytes(bits, group, scale_type) + rows * group + rows / 8 * kGroupScaleBytes;
}

// ---- sm90_gemm.cu: sums of finished slices; stages (codes and scales of rows, records); barriers ----

constexpr int kAsyncThreads = 256, kAsyncTiles = 16;  // multiplying threads; tiles in a block
constexpr int kAsyncCopiers = 128;                    // copying threads
constexpr int kMaxAsyncRows = 96;                     // in a block
/// Bytes of one row and group: codes and scales.
FT_ON_BOTH int swizzled_bytes(int group) { return group + kGroupScaleBytes / 8; }

struct AsyncLayout {
  int scales, records, stage;  // offsets in a stage; its size
  int sums, stages;            // size of the sums; number of stages
  int full, empty, bytes;
};
FT_ON_BOTH AsyncLayout async_layout(int rows, int group, int record) {
  const int room = 226 << 10, most = 8;
  AsyncLayout at{};
  at.scales = rows * group, at.records = rows * swizzled_bytes(group);
  at.stage = at.records + kAsyncTiles * record, at.sums = kAsyncThreads * rows * 4;
  at.stages = (room - at.sums) / at.stage < most ? (room - at.sums) / at.stage : most;
  at.full = at.sums + at.stages * at.stage, at.empty = at.full + kBarrierBytes * at.stages;
  at.bytes = at.empty + kBarrierBytes * at.stages;
  return at;
}

// ---- sm90_half.cu: the same with halves and sums of rows ----

constexpr int kAsyncHalfRows = 64;  // in a block
/// Bytes of one row and group: halves and a sum.
FT_ON_BOTH int swizzled_half_bytes(int group) { return 2 * group + 4; }
FT_ON_BOTH AsyncLayout async_half_layout(int group, int record) {
  const int room = 226 << 10, most = 8;
  AsyncLayout at{};
  at.scales = kAsyncHalfRows * 2 * group, at.records = kAsyncHalfRows * swizzled_half_bytes(group);
  at.stage = at.records + kAsyncTiles * record, at.sums = kAsyncThreads * kAsyncHalfRows * 4;
  at.stages = (room - at.sums) / at.stage < most ? (room - at.sums) / at.stage : most;
  at.full = at.sums + at.stages * at.stage, at.empty = at.full + kBarrierBytes * at.stages;
  at.bytes = at.empty + kBarrierBytes * at.stages;
  return at;
}

// ---- attend.cu: queries, scores, weights and factors; then stages of keys and values ----

FT_ON_BOTH int attend_block_bytes(int dims, int tiles) {
  return tiles * kQueryTile * ((dims + 8) * 2 + (kCacheRows + 4) * 4 + (kCacheRows + 8) * 2 + 8);
}
FT_ON_BOTH int attend_stage_bytes(int dims) { return 2 * kCacheRows * (dims + 8) * 2; }

// ---- mixture.cu, mixture_down: sums, codes and scales of inner rows ----

struct MixtureLayout {
  int line, codes, scales, bytes;  // line: stride of codes; scales: offset from `codes`
};
/// `slots`: inner rows; `groups`: groups of the longest one; `held`: experts with sums in memory.
FT_ON_BOTH MixtureLayout mixture_layout(int slots, int groups, int held) {
  MixtureLayout at{};
  at.line = groups * kGroupBytes + 64;
  at.codes = held * kSplitK * kWarpSumBytes, at.scales = slots * at.line;
  at.bytes = at.codes + at.scales + slots * groups * 8;
  return at;
}

}  // namespace ft::cuda
