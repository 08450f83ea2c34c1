// The shared memory of the blocks that have dynamic shared memory: the host counts bytes with these functions
// and kernels find their parts with them. Also the bytes of a record of packed weights (layout.cuh).
#pragma once

#include "backends/cuda/arguments.h"

namespace ft::cuda {

/// A record: the codes of one group of a tile, then 16 scales and biases.
FT_ON_BOTH int record_codes(int bits, int group) { return kTileOutputs / 8 * group * bits; }
FT_ON_BOTH int scale_pair_bytes(int scale_type) { return scale_type == kFloatScales ? 8 : 4; }
FT_ON_BOTH int record_bytes(int bits, int group, int scale_type) {
  return record_codes(bits, group) + kTileOutputs * scale_pair_bytes(scale_type);
}
/// A record of e2m1 codes: those of one group of a tile, then 16 scales of a byte.
constexpr int kSmallFloatGroup = 32, kSmallFloatCodes = record_codes(4, kSmallFloatGroup),
              kSmallFloatRecord = kSmallFloatCodes + kTileOutputs;
constexpr int kStreamedGroup = 64;  // of the linears that are made for Hopper, whose weights have 4 bits
constexpr int kStreamedRecord = record_bytes(4, kStreamedGroup, kBf16Scales);
constexpr int kShortGroup = 32;     // of those made for Hopper with 4 and 8 bits
constexpr int kShortestGroup = 16;  // the same; half a step of the matrix instruction
/// A group's codes of one row, and its scales of eight rows, take as many bytes.
constexpr int kGroupBytes = kStreamedGroup, kGroupScaleBytes = kScaleFloats * 4;
static_assert(kGroupBytes == kGroupScaleBytes);
constexpr int kWarpSumBytes = 32 * 4 * 4;  // four sums a lane: a tile and eight rows
constexpr int kBarrierBytes = 8;

// ---- hopper_linear.cu: ring of records, codes of x, their scales, partial sums, barriers ----

constexpr int kStreamThreads = 320, kStreamSums = 2;  // kStreamSums: buffers of partial sums in work

struct StreamLayout {
  int x, scales, sums, barriers, bytes;
};
/// Rows lie a group's codes apart in banks.
FT_ON_BOTH int stream_row_bytes(int k, int group) {
  return group == kStreamedGroup ? k + 64 : (k + 127) / 128 * 128 + group;
}
FT_ON_BOTH StreamLayout stream_layout(const StreamArgs& p, int columns, int chunk, int group, int record) {
  StreamLayout at{};
  const int k = p.linear.groups * group;
  at.x = p.stages * chunk * kSplitK * record;
  at.scales = at.x + p.linear.rows * stream_row_bytes(k, group);
  at.sums = at.scales + columns * (group == kStreamedGroup ? k : p.linear.groups * kGroupScaleBytes);
  at.barriers = at.sums + kStreamSums * kSplitK * kWarpSumBytes * columns;
  at.bytes = at.barriers + kBarrierBytes * (2 * p.stages + 2 * kStreamSums + 1);
  return at;
}

// ---- hopper_rows.cu: ring of records, a slice's codes of x, their scales, slices of tiles, barriers ----

constexpr int kSplitKThreads = 352, kSplitKChunk = 3, kSplitKSums = 3;  // groups of a stage; buffers of sums

struct SplitKLayout {
  int x, x_stride, scales, sums, barriers, bytes;
};
/// Tiles of a warp at a time: what is read of x serves them all.
FT_ON_BOTH int held_tiles(int columns) { return columns <= 4 ? 2 : 1; }
FT_ON_BOTH int splitk_stage_bytes(int columns) {
  return 8 * held_tiles(columns) * kSplitKChunk * kStreamedRecord;
}
/// Places are the same in all blocks of a cluster: those of the largest slice.
FT_ON_BOTH SplitKLayout splitk_layout(const SplitKGemmArgs& p, int columns) {
  SplitKLayout at{};
  const int groups = slice_groups(p.linear.groups);
  at.x = p.stages * splitk_stage_bytes(columns);
  at.x_stride = groups * kGroupBytes + (groups % 2 == 0 ? 64 : 0);  // rows of eight lanes lie in other banks
  at.scales = at.x + p.linear.rows * at.x_stride;
  at.sums = at.scales + columns * groups * kGroupScaleBytes;
  at.barriers = at.sums + kSplitKSums * kSplitK * columns * kWarpSumBytes;
  at.bytes = at.barriers + kBarrierBytes * (2 * p.stages + 2 * kSplitKSums + 1);
  return at;
}

// ---- gemm.cu: sums of the slices so far, then stages of a group ----

constexpr int kGemmThreads = 256, kGemmTiles = 8;  // tiles of 16 outputs of a block

FT_ON_BOTH int gemm_sum_bytes(int rows) { return kGemmTiles * kTileOutputs * rows * 4; }
FT_ON_BOTH int gemm_stage_bytes(int bits, int group, int scale_type, int rows) {
  return kGemmTiles * record_bytes(bits, group, scale_type) + rows * group + rows / 8 * kGroupScaleBytes;
}

// ---- sm90_gemm.cu: sums of the slices so far; stages of codes of rows, their scales, records; barriers ----

constexpr int kAsyncThreads = 256, kAsyncTiles = 16;  // threads that multiply; tiles of a block
constexpr int kAsyncCopiers = 128;                    // threads that copy
constexpr int kMaxAsyncRows = 96;                     // of a block
/// Of a row and group: its codes and scales.
FT_ON_BOTH int swizzled_bytes(int group) { return group + kGroupScaleBytes / 8; }

struct AsyncLayout {
  int scales, records, stage;  // in a stage; its bytes
  int sums, stages;            // bytes of the sums; number of stages
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

// ---- attend.cu: queries, scores, weights and factors; then stages of keys and values ----

FT_ON_BOTH int attend_block_bytes(int dims, int tiles) {
  return tiles * kQueryTile * ((dims + 8) * 2 + (kCacheRows + 4) * 4 + (kCacheRows + 8) * 2 + 8);
}
FT_ON_BOTH int attend_stage_bytes(int dims) { return 2 * kCacheRows * (dims + 8) * 2; }

// ---- mixture.cu, mixture_down: sums, codes of inner rows, their scales ----

struct MixtureLayout {
  int line, codes, scales, bytes;  // line: bytes of a row's codes; scales: from the codes on
};
/// `slots`: inner rows; `groups`: of the longest one; `held`: experts whose sums there are.
FT_ON_BOTH MixtureLayout mixture_layout(int slots, int groups, int held) {
  MixtureLayout at{};
  at.line = groups * kGroupBytes + 64;
  at.codes = held * kSplitK * kWarpSumBytes, at.scales = slots * at.line;
  at.bytes = at.codes + at.scales + slots * groups * 8;
  return at;
}

}  // namespace ft::cuda
