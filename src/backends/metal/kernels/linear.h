// y = W x. Weights are packed in tiles of 32 outputs: [tile][chunk of 32 inputs][word][lane], so a simdgroup
// reads 128 bytes at a time and a lane owns an output. The arithmetic is the same for every number of rows: K
// is cut into 8 fixed parts at borders of groups; inside a part groups in order, inside a group inputs in
// order; then part 0 + part 1 + ... in order.
#pragma once
#include "backends/metal/kernels/arguments.h"
#include "backends/metal/kernels/language.h"

constant constexpr int kAffine = 0, kBf16 = 1, kF16 = 2, kF32 = 3, kFp4 = 4, kFp8 = 5;
constant constexpr uint kScalesNone = 0, kScalesBf16 = 1, kScalesF16 = 2, kScalesF32 = 3;
constant constexpr uint kParts = 8;
constant constexpr float kFp4Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                           -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float fp8_value(uint code) {
  const uint exponent = (code >> 3) & 15u, fraction = code & 7u;
  float size = float(fraction) * 0.001953125f;
  if (exponent != 0) size = as_type<float>(((exponent + 120u) << 23) | (fraction << 20));
  if ((code & 127u) == 127u) size = as_type<float>(0x7fc00000u);
  return (code & 128u) != 0 ? -size : size;
}

template <int KIND>
inline float value_of_code(uint code) {
  if (KIND == kBf16) return as_type<float>(code << 16);
  if (KIND == kF16) return float(as_type<half>(ushort(code)));
  if (KIND == kF32) return as_type<float>(code);
  if (KIND == kFp4) return kFp4Values[code];
  if (KIND == kFp8) return fp8_value(code);
  return float(code);
}

// Code i of a chunk whose words are `stride` apart.
template <int BITS>
inline uint code_at(const thread uint* words, int i) {
  const int bit = i * BITS, word = bit / 32, shift = bit % 32;
  if (BITS == 32) return words[word];
  uint code = words[word] >> shift;
  if (shift + BITS > 32) code |= words[word + 1] << (32 - shift);
  return code & ((1u << (BITS % 32)) - 1u);
}

// Scale and bias of a group, for a lane: 16-bit pairs are one word, float pairs two.
struct Scales {
  float scale, bias;
};
inline Scales scales_at(const device uint* scales, uint kind, uint group, uint lane) {
  Scales found;
  found.scale = 1.0f;
  found.bias = 0.0f;
  if (kind == kScalesF32) {
    found.scale = as_type<float>(scales[(group * 2) * kLanes + lane]);
    found.bias = as_type<float>(scales[(group * 2 + 1) * kLanes + lane]);
  } else if (kind != kScalesNone) {
    const uint pair = scales[group * kLanes + lane];
    if (kind == kScalesBf16) {
      found.scale = as_type<float>(pair << 16);
      found.bias = as_type<float>(pair & 0xffff0000u);
    } else {
      found.scale = float(as_type<half>(ushort(pair & 0xffffu)));
      found.bias = float(as_type<half>(ushort(pair >> 16)));
    }
  }
  return found;
}

inline uint part_begin(uint part, uint groups) { return part * groups / kParts; }

// Words of one tile.
inline uint tile_words(uint inputs, uint bits) { return (inputs + 31) / 32 * bits * kLanes; }
inline uint tile_scales(uint groups, uint kind) { return groups * kLanes * (kind == kScalesF32 ? 2u : 1u); }

template <int KIND, int BITS, int ROWS>
inline void part_of(const device uint* codes, const device uint* scales, const device float* x,
                    const device float* sums, constant LinearArgs& a, uint lane, uint first, uint last,
                    uint row, thread float* acc) {
  const uint groups = (a.inputs + a.group - 1) / a.group;
  uint at[ROWS];  // rows after the last one repeat it; their sums are not used
  for (int r = 0; r < ROWS; ++r) {
    acc[r] = 0.0f;
    at[r] = min(row + uint(r), a.rows - 1);
  }
  for (uint g = first; g < last; ++g) {
    const uint begin = g * a.group, end = min(begin + a.group, a.inputs);
    float dot[ROWS];
    for (int r = 0; r < ROWS; ++r) dot[r] = 0.0f;
    for (uint chunk = begin / 32; chunk * 32 < end; ++chunk) {
      uint words[BITS];
      for (int b = 0; b < BITS; ++b) words[b] = codes[(chunk * uint(BITS) + uint(b)) * kLanes + lane];
      for (int h = 0; h < 2; ++h) {
        const uint k = chunk * 32 + uint(h) * 16;
        if (k < begin || k >= end) continue;
        const int count = int(min(16u, end - k));
        for (int i = 0; i < 16; ++i) {
          if (i >= count) break;
          const float q = value_of_code<KIND>(code_at<BITS>(words, h * 16 + i));
          for (int r = 0; r < ROWS; ++r) dot[r] = fma(x[at[r] * a.x_stride + k + uint(i)], q, dot[r]);
        }
      }
    }
    if (KIND == kBf16 || KIND == kF16 || KIND == kF32) {
      for (int r = 0; r < ROWS; ++r) acc[r] += dot[r];
    } else {
      const Scales s = scales_at(scales, a.scales, g, lane);
      for (int r = 0; r < ROWS; ++r) {
        acc[r] = fma(s.scale, dot[r], acc[r]);
        if (KIND == kAffine) acc[r] = fma(s.bias, sums[at[r] * groups + g], acc[r]);
      }
    }
  }
}

// Sums of x by group, in order of inputs. grid (groups / 256, rows), 256 threads.
kernel void group_sums(const device float* x [[buffer(0)]], device float* sums [[buffer(1)]],
                       constant LinearArgs& a [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint groups = (a.inputs + a.group - 1) / a.group, g = group.x * 256 + simd * kLanes + lane;
  if (g >= groups) return;
  const uint end = min((g + 1) * a.group, a.inputs);
  float sum = 0.0f;
  for (uint k = g * a.group; k < end; ++k) sum += x[group.y * a.x_stride + k];
  sums[group.y * groups + g] = sum;
}

// grid (tiles, rows / ROWS), 256 threads: a simdgroup is a part of K.
template <int KIND, int BITS, int ROWS>
kernel void linear_few(const device uint* codes [[buffer(0)]], const device uint* scales [[buffer(1)]],
                       const device float* x [[buffer(2)]], const device float* sums [[buffer(3)]],
                       device float* y [[buffer(4)]], constant LinearArgs& a [[buffer(5)]],
                       uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, parts, 8 * ROWS * 32);
  const uint groups = (a.inputs + a.group - 1) / a.group, row = group.y * uint(ROWS);
  const uint output = group.x * kLanes + lane;
  float acc[ROWS];
  part_of<KIND, BITS, ROWS>(codes + group.x * tile_words(a.inputs, uint(BITS)),
                            scales + group.x * tile_scales(groups, a.scales), x, sums, a, lane,
                            part_begin(simd, groups), part_begin(simd + 1, groups), row, acc);
  for (int r = 0; r < ROWS; ++r) parts[(simd * uint(ROWS) + uint(r)) * kLanes + lane] = acc[r];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint r = simd; r < uint(ROWS); r += kParts) {
    float sum = parts[r * kLanes + lane];
    for (uint p = 1; p < kParts; ++p) sum += parts[(p * uint(ROWS) + r) * kLanes + lane];
    if (row + r < a.rows && output < a.outputs) y[(row + r) * a.y_stride + output] = sum;
  }
}

// grid (tiles, rows / 64), 256 threads: a simdgroup walks all of K for 8 rows, with the same additions.
template <int KIND, int BITS>
kernel void linear_many(const device uint* codes [[buffer(0)]], const device uint* scales [[buffer(1)]],
                        const device float* x [[buffer(2)]], const device float* sums [[buffer(3)]],
                        device float* y [[buffer(4)]], constant LinearArgs& a [[buffer(5)]],
                        uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint groups = (a.inputs + a.group - 1) / a.group, row = (group.y * 8 + simd) * 8;
  const uint output = group.x * kLanes + lane;
  if (row >= a.rows) return;
  float total[8];
  for (uint part = 0; part < kParts; ++part) {
    float acc[8];
    part_of<KIND, BITS, 8>(codes + group.x * tile_words(a.inputs, uint(BITS)),
                           scales + group.x * tile_scales(groups, a.scales), x, sums, a, lane,
                           part_begin(part, groups), part_begin(part + 1, groups), row, acc);
    for (int r = 0; r < 8; ++r) total[r] = part == 0 ? acc[r] : total[r] + acc[r];
  }
  for (uint r = 0; r < 8; ++r)
    if (row + r < a.rows && output < a.outputs) y[(row + r) * a.y_stride + output] = total[r];
}

// A matrix for each of a row's experts: grid (tiles, rows * chosen), 256 threads. y is [rows * chosen,
// outputs].
template <int KIND, int BITS>
kernel void linear_routed(const device uint* codes [[buffer(0)]], const device uint* scales [[buffer(1)]],
                          const device float* x [[buffer(2)]], const device float* sums [[buffer(3)]],
                          const device float* routes [[buffer(4)]], device float* y [[buffer(5)]],
                          constant LinearArgs& a [[buffer(6)]], uint3 group [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]],
                          uint simd [[simdgroup_index_in_threadgroup]]) {
  FT_SHARED(float, parts, 8 * 32);
  const uint groups = (a.inputs + a.group - 1) / a.group, pair = group.y, row = pair / a.chosen;
  const uint expert = uint(routes[row * 2 * a.chosen + pair % a.chosen]);
  const uint output = group.x * kLanes + lane;
  float acc[1];
  part_of<KIND, BITS, 1>(codes + expert * a.codes_each + group.x * tile_words(a.inputs, uint(BITS)),
                         scales + expert * a.scales_each + group.x * tile_scales(groups, a.scales), x, sums,
                         a, lane, part_begin(simd, groups), part_begin(simd + 1, groups),
                         a.x_per_row != 0 ? row : pair, acc);
  parts[simd * kLanes + lane] = acc[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd != 0 || output >= a.outputs) return;
  float sum = parts[lane];
  for (uint p = 1; p < kParts; ++p) sum += parts[p * kLanes + lane];
  y[pair * a.y_stride + output] = sum;
}

// One row of a packed matrix for each token; t < 0 is place -1 - t of the round's tokens.
// grid (width / 256, rows), 256 threads.
template <int KIND, int BITS>
kernel void embed_rows(const device uint* codes [[buffer(0)]], const device uint* scales [[buffer(1)]],
                       const device int* tokens [[buffer(2)]], const device int* round [[buffer(3)]],
                       device float* y [[buffer(4)]], constant EmbedArgs& a [[buffer(5)]],
                       uint3 group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint column = group.x * 256 + simd * kLanes + lane;
  if (column >= a.width) return;
  const int given = tokens[group.y];
  const uint token = uint(given < 0 ? round[-1 - given] : given), tile = token / kLanes,
             owner = token % kLanes;
  const uint groups = (a.width + a.group - 1) / a.group;
  const device uint* chunk =
      codes + tile * tile_words(a.width, uint(BITS)) + column / 32 * uint(BITS) * kLanes + owner;
  uint words[BITS];
  for (int b = 0; b < BITS; ++b) words[b] = chunk[uint(b) * kLanes];
  float value = value_of_code<KIND>(code_at<BITS>(words, int(column % 32)));
  if (KIND != kBf16 && KIND != kF16 && KIND != kF32) {
    const Scales s =
        scales_at(scales + tile * tile_scales(groups, a.scales), a.scales, column / a.group, owner);
    value = KIND == kAffine ? fma(s.scale, value, s.bias) : s.scale * value;
  }
  y[group.y * a.y_stride + column] = value;
}
