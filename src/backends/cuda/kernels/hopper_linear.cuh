// The linear of few rows at the memory's speed (sm_90 and later), for 4-bit weights in groups of 64 with
// scales of bfloat16 (hopper_linear.cu) and for other kinds (hopper_linear_kinds.cu). A block has an SM for
// itself and walks over tiles. One warp streams records through a ring in shared memory (bulk copies; a
// stage is a piece: up to `chunk` groups of all eight slices), begun before the previous launch has ended;
// eight warps have a slice of K each, some slices one group longer if eight does not divide the groups; a
// tenth warp fetches the codes of x and adds the slices in order. With up to kProducerRows rows, the eight
// warps may make the codes themselves, which saves a launch. The bits equal linear_codes'.
#pragma once

#include "backends/cuda/kernels/half.cuh"
#include "backends/cuda/kernels/hopper.cuh"
#include "backends/cuda/kernels/product.cuh"
#include "backends/cuda/kernels/quantise.cuh"

namespace ft::cuda {

/// The groups of a stage and slice: `Chunk`, or if that is 0, by the matrix.
template <int Chunk>
FT_DEVICE int chunk_of(const StreamArgs& p) {
  return Chunk > 0 ? Chunk : piece_groups(slice_groups(p.linear.groups));
}

/// A lane's part of a tile in a kernel of up to `Rows` rows. The product has eight columns: fewer rows are
/// repeated, so a lane needs fewer of its four values.
template <int Rows>
struct Shape {
  static constexpr int kColumns = Rows > 8 ? 2 : 1, kValues = Rows >= 8 ? 4 : Rows == 4 ? 2 : 1;
  static constexpr int kSumBytes = 128 * kValues;  // of a warp and eight columns
  FT_DEVICE_MEMBER static int row_of_column(int quad) { return Rows >= 8 ? quad : quad / 2 % Rows; }
  FT_DEVICE_MEMBER static int row(int t, int value) { return Rows >= 8 ? 2 * t + value % 2 : t % Rows; }
  FT_DEVICE_MEMBER static int output(int quad, int t, int value) {
    return quad + 8 * (Rows >= 8 ? value / 2 : Rows == 4 ? value : t / 2);
  }
};

struct Ring {
  u32 base, full, empty, part, freed, ready;  // shared addresses
};

/// The one thread that streams the records of a block's tiles. `groups`: of a slice if all are equal, else of
/// a tile.
template <class Weights, int Chunk, bool Even>
struct Producer {
  static constexpr int kRecord = Weights::kRecord;
  u64 policy;
  const u8* from;
  int slot, phase, group, tile, fills;

  FT_DEVICE_MEMBER void begin(const StreamArgs& p, int first, int groups) {
    policy = read_once();
    from = p.linear.records + (long long)first * groups * (Even ? kSplitK : 1) * kRecord;
    slot = 0, phase = 1, group = 0, tile = first, fills = 0;
  }
  FT_DEVICE_MEMBER void fill(const StreamArgs& p, const Ring& ring, int groups) {
    const int chunk = chunk_of<Chunk>(p);
    const int bytes = Even ? min_(chunk, groups - group) * kSplitK * kRecord
                           : min_(chunk * kSplitK, groups - group) * kRecord;
    const u32 barrier = ring.full + 8 * slot, to = ring.base + slot * chunk * kSplitK * kRecord;
    barrier_expect(barrier, bytes);
    bulk_copy_once(to, from, bytes, barrier, policy);
    from += bytes, group += Even ? chunk : chunk * kSplitK, fills++;
    if (group >= groups) group = 0, tile++;
    if (++slot == p.stages) slot = 0, phase ^= 1;
  }
};

template <class Weights, int Columns>
FT_DEVICE void fetch_rows(const StreamArgs& p, const Ring& ring, const StreamLayout& at) {
  const int k = p.linear.groups * Weights::kGroup, scales = k * Weights::kScaleLines;
  order_copies();
  const int row = k * Weights::kInputBytes;
  barrier_expect(ring.ready, (p.linear.rows * Weights::kInputBytes + Columns * Weights::kScaleLines) * k);
  for (int r = 0; r < p.linear.rows; r++)
    bulk_copy(ring.base + at.x + r * stream_row_bytes(k, Weights::kGroup, Weights::kInputBytes),
              p.linear.codes + (long long)r * row, row, ring.ready);
  for (int n = 0; n < Columns; n++)
    bulk_copy(ring.base + at.scales + n * scales, (const u8*)p.linear.scales + (long long)n * scales, scales,
              ring.ready);
}

// ---- codes that each block makes for itself, in threads 0 to 255 ----

/// 1 / root mean square of a row, added up as rms_norm does.
FT_DEVICE float norm_factor(const StreamArgs& p, int k, const float* in, float* scratch) {
  float sum = 0;
  FT_LOOP for (int at = (int)threadIdx.x * 16; at < k; at += 16 * 256) {
    float v[16];
    load16(in + at, 16, v);
    FT_UNROLL for (int j = 0; j < 16; j++) sum = fma_(v[j], v[j], sum);
  }
  sum = warp_sum(sum);
  sync_first_256();  // the row before has read its sums
  if (lane_of() == 0) scratch[warp_of()] = sum;
  sync_first_256();
  float total = 0;
  FT_UNROLL for (int i = 0; i < 8; i++) total = total + scratch[i];
  return 1.0f / sqrt_(total / (float)k + p.producer.eps);
}

template <class Weights, bool Even>
FT_DEVICE void make_rows(const StreamArgs& p, const StreamLayout& at, u8* memory) {
  constexpr int kGroup = Weights::kGroup;
  const int k = p.linear.groups * kGroup;
  const bool normed = p.producer.kind == kFromNorm;
  FT_LOOP for (int r = 0; r < p.linear.rows; r++) {
    const float* in = p.producer.in.data + (long long)r * p.producer.in.stride;
    const float factor = normed ? norm_factor(p, k, in, (float*)(memory + at.sums)) : 1.0f;
    FT_LOOP for (int i = (int)threadIdx.x * 16; (Even ? i : i / 512 * 512) < k;
                 i += 16 * 256) {              // whole warps
      const int from = Even || i < k ? i : 0;  // threads beyond the row compute values that are not stored
      float v[16], weight[16];
      load16(in + from, 16, v);
      FT_UNROLL for (int j = 0; j < 16; j++) weight[j] = 1;
      if (p.producer.weight != nullptr) load16(p.producer.weight + from, 16, weight);
      if (normed) FT_UNROLL for (int j = 0; j < 16; j++) v[j] = v[j] * factor * weight[j];
      if constexpr (Weights::kInputBytes == 2) {
        store_halves<16>(Weights::kSplit, kGroup, i, v, Even || i < k,
                         (u32*)(memory + at.x + r * stream_row_bytes(k, kGroup, 2)),
                         (float*)(memory + at.scales) + r * 2);
        continue;
      }
      const Codes<16> codes = make_codes<16>(kGroup, v);
      if (!Even && i >= k) continue;
      *(uint4*)(memory + at.x + r * stream_row_bytes(k, kGroup, 1) + i) =
          make_uint4(codes.words[0], codes.words[1], codes.words[2], codes.words[3]);
      float* to = (float*)(memory + at.scales) + i / kGroup * kScaleFloats + r * 2;
      if (i % kGroup == 0) to[0] = codes.scale, to[1] = codes.scale * (float)codes.total;
    }
  }
  sync_first_256();
}

/// A lane's values in shared memory.
template <int Count>
struct alignas(4 * Count) Values {
  float of[Count];
};

template <class Weights, int Rows>
FT_DEVICE void add_slices(const StreamArgs& p, const Ring& ring, const u8* sums, int first, int last) {
  using Own = Shape<Rows>;
  constexpr int kColumns = Own::kColumns, kValues = Own::kValues;
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  for (int i = 0; i < last - first; i++) {
    const int b = i % kStreamSums;
    // The addend, loaded before the wait for the sums, and before a store that could be to the same place.
    float before[kColumns][kValues];
    const auto row_of = [&](int n, int j) { return 8 * n + Own::row(t, j); };
    const auto output_of = [&](int j) { return (first + i) * kTileOutputs + Own::output(quad, t, j); };
    const auto live = [&](int n, int j) {
      return row_of(n, j) < p.linear.rows && output_of(j) < p.linear.outputs;
    };
    if (p.linear.residual.data != nullptr) {
      FT_UNROLL for (int n = 0; n < kColumns; n++) FT_UNROLL for (int j = 0; j < kValues; j++) {
        if (live(n, j))
          before[n][j] =
              p.linear.residual.data[(long long)row_of(n, j) * p.linear.residual.stride + output_of(j)];
      }
    }
    barrier_wait(ring.part + 8 * b, i / kStreamSums & 1);
    FT_UNROLL for (int n = 0; n < kColumns; n++) {
      const u8* from = sums + (b * 8 * kColumns + n) * Own::kSumBytes + lane * 4 * kValues;
      Values<kValues> total = *(const Values<kValues>*)from;
      FT_UNROLL for (int slice = 1; slice < kSplitK; slice++) {
        const auto v = *(const Values<kValues>*)(from + slice * kColumns * Own::kSumBytes);
        FT_UNROLL for (int j = 0; j < kValues; j++) total.of[j] = total.of[j] + v.of[j];
      }
      FT_UNROLL for (int j = 0; j < kValues; j++) {
        if (!live(n, j)) continue;
        if constexpr (Weights::kInputBytes == 2) total.of[j] = total.of[j] * kWholeHalfSum;
        const float value = p.linear.residual.data != nullptr ? before[n][j] + total.of[j] : total.of[j];
        p.linear.out.data[(long long)row_of(n, j) * p.linear.out.stride + output_of(j)] = value;
      }
    }
    sync_warp();
    if (lane == 0) barrier_arrive(ring.freed + 8 * b);
  }
}

// ---- 4 bits in groups of 64, scales of bfloat16 ----

/// A record's codes as two left operands. With up to eight rows the high halves keep their factor of 16, and
/// their product is separate and shifted afterwards, so neither waits for the other. With more rows they are
/// shifted here.
template <int Rows>
FT_DEVICE void take_halves(uint4 w, u32 (&low)[4], u32 (&high)[4]) {
  constexpr u32 kHigh = 0xf0f0f0f0u;
  split_halves(w, low, high);
  if constexpr (Rows <= 8)
    high[0] = w.x & kHigh, high[1] = w.y & kHigh, high[2] = w.z & kHigh, high[3] = w.w & kHigh;
}

/// The integers of one group: dots[i] + (more[i] >> 4).
template <int Rows>
FT_DEVICE void multiply_halves(const u32 (&low)[4], const u32 (&high)[4], uint4 codes, int (&dots)[4],
                               int (&more)[4]) {
  FT_UNROLL for (int j = 0; j < 4; j++) dots[j] = more[j] = 0;
  mma_bytes(dots, low[0], low[1], low[2], low[3], codes.x, codes.y);
  mma_bytes(Rows <= 8 ? more : dots, high[0], high[1], high[2], high[3], codes.z, codes.w);
}

/// acc += one group of up to eight rows. `pairs_at`: scale and bias of the lane's outputs.
template <int Rows>
FT_DEVICE void add_record(const u8* pairs_at, const u32 (&low)[4], const u32 (&high)[4], const u8* x,
                          const u8* scales, float (&acc)[Shape<Rows>::kValues]) {
  int dots[4], more[4];
  multiply_halves<Rows>(low, high, *(const uint4*)x, dots, more);
  const auto whole = [&](int j) { return (float)(Rows <= 8 ? dots[j] + (more[j] >> 4) : dots[j]); };
  if constexpr (Rows >= 8) {
    const uint2 pairs = *(const uint2*)pairs_at;
    const float4 s = *(const float4*)scales;
    FT_UNROLL for (int j = 0; j < 4; j++) {
      const u32 pair = j < 2 ? pairs.x : pairs.y;
      acc[j] = fma_(bf16_high(pair), j % 2 == 0 ? s.y : s.w,
                    fma_(whole(j), bf16_low(pair) * (j % 2 == 0 ? s.x : s.z), acc[j]));
    }
  } else if constexpr (Rows == 4) {
    const uint2 pairs = *(const uint2*)pairs_at;
    const float2 s = *(const float2*)scales;
    FT_UNROLL for (int j = 0; j < 2; j++) {
      const u32 pair = j == 0 ? pairs.x : pairs.y;
      acc[j] = fma_(bf16_high(pair), s.y, fma_(whole(2 * j), bf16_low(pair) * s.x, acc[j]));
    }
  } else {
    const u32 pair = *(const u32*)pairs_at;
    const float2 s = *(const float2*)scales;
    const bool second = (lane_of() & 2) != 0;
    dots[0] = second ? dots[2] : dots[0], more[0] = second ? more[2] : more[0];
    acc[0] = fma_(bf16_high(pair), s.y, fma_(whole(0), bf16_low(pair) * s.x, acc[0]));
  }
}

// ---- all other kinds of weights ----

/// A record in registers: a left operand for each step; groups of 16 have half of one.
template <class Weights>
struct LaneRecord {
  u32 a[Weights::kSteps > 1 ? Weights::kSteps : 1][4];

  FT_DEVICE_MEMBER LaneRecord(const u8* record, int lane) {
    if constexpr (Weights::kGroup == kShortestGroup) {
      u32 half[2];
      load_shortest<Weights::kBits>(record, lane, half);
      a[0][0] = half[0], a[0][1] = half[1], a[0][2] = a[0][3] = 0;
    } else {
      load_words<Weights::kBits, Weights::kSteps>(record, lane, a);
    }
  }
  /// The integers of a group. `x`: a lane's codes of its row.
  FT_DEVICE_MEMBER void multiply(const u8* x, int (&dots)[4]) const {
    dots[0] = dots[1] = dots[2] = dots[3] = 0;
    if constexpr (Weights::kGroup == kShortestGroup) {
      mma_bytes_16(dots, a[0][0], a[0][1], *(const u32*)x);
    } else if constexpr (Weights::kSteps == 1) {
      const uint2 codes = *(const uint2*)x;
      mma_bytes(dots, a[0][0], a[0][1], a[0][2], a[0][3], codes.x, codes.y);
    } else {
      const uint4 codes = *(const uint4*)x;
      mma_bytes(dots, a[0][0], a[0][1], a[0][2], a[0][3], codes.x, codes.y);
      mma_bytes(dots, a[1][0], a[1][1], a[1][2], a[1][3], codes.z, codes.w);
    }
  }
};

/// Scale and bias of a lane's outputs, Count of them from `at` on.
template <int Type, int Count>
struct LaneScales {
  float scale[Count], bias[Count];

  FT_DEVICE_MEMBER explicit LaneScales(const u8* at) {
    if constexpr (Type == kFloatScales && Count == 2) {
      const float4 both = *(const float4*)at;
      scale[0] = both.x, bias[0] = both.y, scale[1] = both.z, bias[1] = both.w;
    } else if constexpr (Type == kFloatScales) {
      const float2 one = *(const float2*)at;
      scale[0] = one.x, bias[0] = one.y;
    } else if constexpr (Count == 2) {
      const uint2 pairs = *(const uint2*)at;
      scale[0] = pair_low(pairs.x, Type), bias[0] = pair_high(pairs.x, Type);
      scale[1] = pair_low(pairs.y, Type), bias[1] = pair_high(pairs.y, Type);
    } else {
      const u32 pair = *(const u32*)at;
      scale[0] = pair_low(pair, Type), bias[0] = pair_high(pair, Type);
    }
  }
};

/// acc += one group of up to eight rows.
template <int Rows, class Weights>
FT_DEVICE void add_lane_record(const u8* scales_at, const LaneRecord<Weights>& record, const u8* x,
                               const u8* scales, float (&acc)[Shape<Rows>::kValues]) {
  int dots[4];
  record.multiply(x, dots);
  const LaneScales<Weights::kScaleType, (Rows >= 4 ? 2 : 1)> w(scales_at);
  if constexpr (Rows >= 8) {
    add_group(acc, dots, w.scale, w.bias, *(const float4*)scales);
  } else if constexpr (Rows == 4) {
    const float2 s = *(const float2*)scales;
    FT_UNROLL for (int j = 0; j < 2; j++) {
      acc[j] = fma_(w.bias[j], s.y, fma_((float)dots[2 * j], w.scale[j] * s.x, acc[j]));
    }
  } else {
    const float2 s = *(const float2*)scales;
    const int dot = (lane_of() & 2) != 0 ? dots[2] : dots[0];
    acc[0] = fma_(w.bias[0], s.y, fma_((float)dot, w.scale[0] * s.x, acc[0]));
  }
}

// ---- rows of halves ----

/// acc += one group of up to eight rows. `a`: the record's steps; `x`: the lane's halves of its row.
template <int Rows, class Weights>
FT_DEVICE void add_half_record(const u8* pairs_at, const u32 (&a)[Weights::kGroup / 16][4], const u8* x,
                               const u8* scales, float (&acc)[Shape<Rows>::kValues]) {
  float dot[4] = {0, 0, 0, 0};
  FT_UNROLL for (int s = 0; s < Weights::kGroup / 16; s += 2) {
    const uint4 two = ((const uint4*)x)[s / 2];
    mma_halves(dot, a[s], two.x, two.y), mma_halves(dot, a[s + 1], two.z, two.w);
  }
  const LaneScales<Weights::kScaleType, (Rows >= 4 ? 2 : 1)> w(pairs_at);
  if constexpr (Rows >= 8) {
    const float4 s = *(const float4*)scales;
    FT_UNROLL for (int j = 0; j < 4; j++) acc[j] =
        fma_(w.bias[j / 2], j % 2 == 0 ? s.y : s.w, fma_(dot[j], w.scale[j / 2], acc[j]));
  } else if constexpr (Rows == 4) {
    const float sum = ((const float*)scales)[1];
    FT_UNROLL for (int j = 0; j < 2; j++) acc[j] = fma_(w.bias[j], sum, fma_(dot[2 * j], w.scale[j], acc[j]));
  } else {
    const float one = (lane_of() & 2) != 0 ? dot[2] : dot[0];
    acc[0] = fma_(w.bias[0], ((const float*)scales)[1], fma_(one, w.scale[0], acc[0]));
  }
}

/// The groups of a warp's slice: as many in each if `Even`.
template <bool Even>
struct SliceGroups {
  int begin, count, most;  // most: of any slice

  /// `groups` as for Producer.
  FT_DEVICE_MEMBER explicit SliceGroups(int groups, int slice) {
    most = Even ? groups : slice_groups(groups);
    begin = Even ? slice * groups : slice_begin(groups, slice);
    count = Even ? groups : slice_begin(groups, slice + 1) - begin;
  }
  /// Records of other slices before a piece of `now` groups of this slice.
  FT_DEVICE_MEMBER int before(int slice, int first, int chunk, int now) const {
    return Even || first + chunk < most ? slice * now : begin - slice * first;
  }
};

template <class Weights, int Rows, int Chunk, bool Even>
FT_DEVICE void consume(const StreamArgs& p, const Ring& ring, const StreamLayout& at, u8* memory, int tiles,
                       int groups) {
  using Own = Shape<Rows>;
  constexpr int kColumns = Own::kColumns, kValues = Own::kValues, kGroup = Weights::kGroup;
  constexpr int kRecord = Weights::kRecord, kQuadScales = 2 * Weights::kPairBytes;
  constexpr int kBytes = kGroup * Weights::kInputBytes;  // of a row's group
  const int lane = lane_of(), warp = warp_of(), quad = lane >> 2, t = lane & 3, k = p.linear.groups * kGroup,
            chunk = chunk_of<Chunk>(p);
  const SliceGroups<Even> own(groups, warp);
  const u8 *x[kColumns], *scales[kColumns];
  FT_UNROLL for (int n = 0; n < kColumns; n++) {  // rows beyond the last read it: columns are independent
    const int row = min_(8 * n + Own::row_of_column(quad), p.linear.rows - 1);
    x[n] = memory + at.x + row * stream_row_bytes(k, kGroup, Weights::kInputBytes) + own.begin * kBytes +
           t * (kBytes / 4);
    scales[n] = memory + at.scales + n * k * Weights::kScaleLines + own.begin * 64 + Own::row(t, 0) * 8;
  }
  const int scales_at = Weights::kCodes + quad * kQuadScales + (Rows == 2 ? t / 2 * (kQuadScales / 2) : 0);
  barrier_wait(ring.ready, 0);
  int slot = 0, phase = 0;
  for (int i = 0; i < tiles; i++) {
    float acc[kColumns][kValues];
    FT_UNROLL for (int n = 0; n < kColumns; n++) FT_UNROLL for (int j = 0; j < kValues; j++) acc[n][j] = 0;
    for (int first = 0; first < own.most; first += chunk) {
      barrier_wait(ring.full + 8 * slot, phase);
      const int count = min_(chunk, own.count - first);
      const int before = own.before(warp, first, chunk, count);
      const u8* stage = memory + (slot * kSplitK * chunk + before) * kRecord;
      const auto group = [&](int g) {
        if constexpr (Weights::kIsStreamed) {
          u32 low[4], high[4];
          take_halves<Rows>(*(const uint4*)(stage + g * kRecord + lane * 16), low, high);
          FT_UNROLL for (int n = 0; n < kColumns; n++) {
            add_record<Rows>(stage + g * kRecord + scales_at, low, high, x[n] + (first + g) * 64,
                             scales[n] + (first + g) * 64, acc[n]);
          }
        } else if constexpr (Weights::kInputBytes == 2) {
          u32 a[kGroup / 16][4];
          load_half_operands<Weights::kBits, kGroup>(stage + g * kRecord, lane, a);
          FT_UNROLL for (int n = 0; n < kColumns; n++) {
            add_half_record<Rows, Weights>(stage + g * kRecord + scales_at, a, x[n] + (first + g) * kBytes,
                                           scales[n] + (first + g) * 64, acc[n]);
          }
        } else {
          const LaneRecord<Weights> record(stage + g * kRecord, lane);
          FT_UNROLL for (int n = 0; n < kColumns; n++) {
            add_lane_record<Rows>(stage + g * kRecord + scales_at, record, x[n] + (first + g) * kGroup,
                                  scales[n] + (first + g) * 64, acc[n]);
          }
        }
      };
      if constexpr (Chunk == 0) {
        int g = 0;
        FT_LOOP for (; g + 2 <= count; g += 2) group(g), group(g + 1);
        if (g < count) group(g);
      } else if (count == Chunk) {
        FT_UNROLL for (int g = 0; g < Chunk; g++) group(g);
      } else {
        for (int g = 0; g < count; g++) group(g);
      }
      sync_warp();
      if (lane == 0) barrier_arrive(ring.empty + 8 * slot);
      if (++slot == p.stages) slot = 0, phase ^= 1;
    }
    const int b = i % kStreamSums;
    if (i >= kStreamSums) barrier_wait(ring.freed + 8 * b, (i / kStreamSums - 1) & 1);
    FT_UNROLL for (int n = 0; n < kColumns; n++) {
      Values<kValues> sums;
      FT_UNROLL for (int j = 0; j < kValues; j++) sums.of[j] = acc[n][j];
      *(Values<kValues>*)(memory + at.sums + ((b * 8 + warp) * kColumns + n) * Own::kSumBytes +
                          lane * 4 * kValues) = sums;
    }
    sync_warp();
    if (lane == 0) barrier_arrive(ring.part + 8 * b);
  }
}

template <class Weights, int Rows, int Chunk, bool Even>
FT_DEVICE void stream(const StreamArgs& p, u8* memory) {
  constexpr int Columns = Shape<Rows>::kColumns;
  const int warp = warp_of(), lane = lane_of(), blocks = (int)gridDim.x, block = (int)blockIdx.x;
  const int first = (int)((long long)p.linear.tiles * block / blocks);
  const int last = (int)((long long)p.linear.tiles * (block + 1) / blocks),
            groups = Even ? p.linear.groups / kSplitK : p.linear.groups;
  const StreamLayout at =
      stream_layout(p, Columns, chunk_of<Chunk>(p), Weights::kGroup, Weights::kRecord, Weights::kInputBytes);
  Ring ring;
  ring.base = shared_address(memory), ring.full = ring.base + at.barriers;
  ring.empty = ring.full + 8 * p.stages, ring.part = ring.empty + 8 * p.stages;
  ring.freed = ring.part + 8 * kStreamSums, ring.ready = ring.freed + 8 * kStreamSums;
  Producer<Weights, Chunk, Even> producer;
  if (warp == 8 && lane == 0) {
    for (int i = 0; i < p.stages; i++)
      barrier_init(ring.full + 8 * i, 1), barrier_init(ring.empty + 8 * i, 8);
    for (int i = 0; i < kStreamSums; i++)
      barrier_init(ring.part + 8 * i, 8), barrier_init(ring.freed + 8 * i, 1);
    barrier_init(ring.ready, 1);
    publish_barriers();
    producer.begin(p, first, groups);
    while (producer.tile < last && producer.fills < min_(p.stages, p.early)) producer.fill(p, ring, groups);
  }
  sync_block();
  if (warp == 8) {
    if (lane != 0) return;
    barrier_wait(ring.ready, 0);  // x passes before the rest of the ring fills
    while (producer.tile < last) {
      barrier_wait(ring.empty + 8 * producer.slot, producer.phase);
      producer.fill(p, ring, groups);
    }
    return;
  }
  if (warp == 9) release_next();
  wait_for_rows();
  if (Columns == 1 && p.producer.kind != kFromCodes && warp < 8) {
    make_rows<Weights, Even>(p, at, memory);
    if (threadIdx.x == 0) barrier_arrive(ring.ready);
  }
  if (warp == 9) {
    if (lane == 0 && (Columns > 1 || p.producer.kind == kFromCodes))
      fetch_rows<Weights, Columns>(p, ring, at);
    sync_warp();
    return add_slices<Weights, Rows>(p, ring, memory + at.sums, first, last);
  }
  consume<Weights, Rows, Chunk, Even>(p, ring, at, memory, last - first, groups);
}

}  // namespace ft::cuda
