// Packed affine weights, read by every linear and by embed. A tile is 16 outputs; a record is a tile's codes
// of one group, then its scales and biases. Codes are stored in 4 or 8 bits in the order of the matrix
// instruction (m16n8k32): with P = group / 32, lane 4 * quad + t has inputs [8 P t, 8 P (t + 1)) of outputs
// quad and quad + 8, step j of P its inputs 8 P t + 8 j ... + 7:
//   4 bits  two words a step: output quad, output quad + 8; byte b holds input b low, input b + 4 high. Of
//           two steps the first holds inputs 0-3 low and 8-11 high, the second 4-7 low and 12-15 high: so the
//           low halves of both are one operand of the instruction, the high ones another.
//   8 bits  four words: inputs 0-3 of quad, of quad + 8, inputs 4-7 of quad, of quad + 8
// Words of a lane lie side by side up to 16 bytes, then part after part of 32 * 16 bytes. A group of 16 is
// half a step (m16n8k16): lane 4 * quad + t has inputs 4 t ... 4 t + 3 of outputs quad and quad + 8. They are
// one word in 4 bits (byte b: input b of quad low, of quad + 8 high) and two in 8 bits.
// Scales: 8 quads x (scale and bias of output quad, of output quad + 8), pairs of a ScaleType.
// Records of a tile: [piece][slice of K][group of the piece]. A piece of all slices is what the streaming
// linear copies at once, so it lies side by side. The last piece of a slice may have fewer groups, or none.
//
// Records of e2m1 codes (mxfp4) lie in order of groups. Lane 4 * quad + t has two words, of outputs quad and
// quad + 8: nibble i is the code of input 8 t + i. Scales: 8 quads x (e8m0 of output quad, of quad + 8).
#pragma once

#include "backends/cuda/kernels/device.cuh"
#include "backends/cuda/kernels/shared_layouts.cuh"

namespace ft::cuda {

/// The record of a tile that a group has, told group by group.
struct RecordWalk {
  int record, groups, piece, in_slice, slice, left;  // left: groups of the piece from this one on

  FT_DEVICE_MEMBER void begin(int of_tile) {
    groups = of_tile, piece = piece_groups(slice_groups(of_tile)), in_slice = 0, slice = -1;
    next_piece(0);
  }
  FT_DEVICE_MEMBER void step() {
    record++, in_slice++;
    if (--left > 0) return;
    next_piece(slice_begin(groups, slice + 1) - slice_begin(groups, slice));
  }

 private:
  FT_DEVICE_MEMBER void next_piece(int of_slice) {
    while (in_slice == of_slice && slice < kSplitK - 1) {  // a slice of few groups may have none
      in_slice = 0, slice++;
      of_slice = slice_begin(groups, slice + 1) - slice_begin(groups, slice);
    }
    left = min_(piece, of_slice - in_slice);
    record = piece_record(groups, slice, in_slice, piece);
  }
};

FT_DEVICE int slice_of(int group, int groups) { return (kSplitK * (group + 1) - 1) / groups; }

FT_DEVICE long long record_at(int tile, int group, int groups) {
  const int slice = slice_of(group, groups), in_slice = group - slice_begin(groups, slice);
  const int piece = piece_groups(slice_groups(groups)), in_piece = in_slice % piece;
  return (long long)tile * groups + piece_record(groups, slice, in_slice - in_piece, piece) + in_piece;
}

/// Byte of the record where word `word` of step `step` of a lane is.
FT_DEVICE int word_at(int bits, int lane, int step, int word, int steps) {
  const int words = bits == 4 ? 2 : 4;           // of a step
  const int part = min_(16, words * 4 * steps);  // bytes of a lane that lie side by side
  const int byte = (step * words + word) * 4;    // in the lane's bytes
  return byte / part * 32 * part + lane * part + byte % part;
}

/// The first input (of a lane's own) in the low halves of a word of 4-bit codes, and how far away the high
/// ones are.
FT_DEVICE int low_input(int step, int steps) { return steps == 1 ? 0 : step / 2 * 16 + step % 2 * 4; }
FT_DEVICE int high_distance(int steps) { return steps == 1 ? 4 : 8; }

/// The numbers of a pair that is not of floats.
FT_DEVICE float pair_low(u32 pair, int type) {
  return type == kHalfScales ? half_to_float((u16)pair) : bf16_low(pair);
}
FT_DEVICE float pair_high(u32 pair, int type) {
  return type == kHalfScales ? half_to_float((u16)(pair >> 16)) : bf16_high(pair);
}

/// Scale and bias of one output of a record.
FT_DEVICE void scale_of(const u8* record, int codes, int type, int output, float& scale, float& bias) {
  const u8* at = record + codes;
  const int place = output % 8 * 2 + output / 8;
  if (type == kFloatScales) {
    scale = ((const float*)at)[place * 2];
    bias = ((const float*)at)[place * 2 + 1];
  } else {
    const u32 pair = ((const u32*)at)[place];
    scale = pair_low(pair, type);
    bias = pair_high(pair, type);
  }
}

/// The code of one input (of the group) and output (of the tile).
FT_DEVICE u32 code_of(const u8* record, int bits, int group, int output, int input) {
  if (group == kShortestGroup) {
    const int owner = output % 8 * 4 + input / 4, second = output / 8;
    const u32 word = ((const u32*)record)[bits == 4 ? owner : 2 * owner + second];
    return bits == 4 ? word >> (8 * (input % 4) + 4 * second) & 15u : word >> (8 * (input % 4)) & 255u;
  }
  const int steps = group / 32, lane = output % 8 * 4 + input / (8 * steps), own = input % (8 * steps);
  const int place = input % 8, high = own / high_distance(steps) % 2;
  if (bits == 4) {
    const int step = steps == 1 ? 0 : own / 16 * 2 + place / 4;
    const u32 word = *(const u32*)(record + word_at(4, lane, step, output / 8, steps));
    return word >> (8 * (place % 4) + 4 * high) & 15u;
  }
  const int step = own / 8;
  const u32 word = *(const u32*)(record + word_at(8, lane, step, place / 4 * 2 + output / 8, steps));
  return word >> (8 * (place % 4)) & 255u;
}

FT_DEVICE const u8* small_float_record(const u8* records, int tile, int group, int groups) {
  return records + ((long long)tile * groups + group) * kSmallFloatRecord;
}

/// The power of two that an e8m0 byte is.
FT_DEVICE float power_of(u32 byte) {
  const u32 bits = byte << 23;
  return float_of(bits > 0x400000u ? bits : 0x400000u);
}

/// The magnitudes of e2m1 codes, doubled: 0, 1, 2, 3 and 4, 6, 8, 12.
constexpr u32 kLowMagnitudes = 0x03020100u, kHighMagnitudes = 0x0c080604u;

/// The value of one input (of the group) and output (of the tile) of a record of e2m1 codes.
FT_DEVICE float small_float_of(const u8* record, int output, int input) {
  const u32 word = ((const u32*)record)[(output % 8 * 4 + input / 8) * 2 + output / 8];
  const u32 code = word >> (4 * (input % 8)) & 15u;
  const float magnitude = (float)(permute_bytes(kLowMagnitudes, kHighMagnitudes, code & 7u) & 255u);
  const float half = 0.5f * power_of(record[kSmallFloatCodes + output % 8 * 2 + output / 8]);
  return (code & 8u ? -magnitude : magnitude) * half;
}

}  // namespace ft::cuda
