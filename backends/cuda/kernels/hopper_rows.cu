// The linear of 9 to 32 rows for 4-bit weights in groups of 64 (sm_90 and later), where the codes of all rows
// do not fit beside the ring of hopper_linear.cu. A block has an SM for itself and multiplies up to kTiles
// tiles by one piece of K at a time: the piece's codes, which stay in registers for all of these tiles, come
// through a ring of their own, so weights are read once. Eight warps have a slice of K each; one thread
// streams weights, one codes. The bits are linear_codes' own.
#include "backends/cuda/kernels/hopper.cuh"
#include "backends/cuda/kernels/product.cuh"

namespace ft::cuda {

constexpr int kRecord = 576, kQuad = 4 * kRecord;
constexpr int kTiles = 4, kPiece = 2;  // tiles of a bundle; groups of a slice in a piece
constexpr int kWeightSlot = kPiece * 2 * kQuad, kCodeSlots = 2;
constexpr int kEarly = 6;  // slots of weights that are filled before the first codes are here

struct RowsRing {
  u32 weights, codes, full, empty, codes_full, codes_empty, begun;  // shared addresses
};

FT_DEVICE int bundle_of(int left) {
  return left > kTiles && left < 2 * kTiles ? (left + 1) / 2 : min_(left, kTiles);
}
FT_DEVICE int first_tile(const LinearArgs& linear, int block) {
  return (int)((long long)linear.tiles * block / (int)gridDim.x);
}

FT_DEVICE void stream_weights(const StreamRowsArgs& p, const RowsRing& ring) {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  const int groups = p.linear.groups / kSlices, last = first_tile(p.linear, (int)blockIdx.x + 1);
  const long long half = (long long)groups * kQuad;
  int slot = 0, phase = 1, fills = 0;
  for (int tile = first_tile(p.linear, (int)blockIdx.x); tile < last;) {
    const int count = bundle_of(last - tile);
    for (int group = 0; group < groups; group += kPiece) {
      const int bytes = min_(kPiece, groups - group) * kQuad;
      const u8* from = p.linear.records + (long long)tile * 2 * half + (long long)group * kQuad;
      for (int t = 0; t < count; t++, from += 2 * half) {
        if (fills++ == kEarly) barrier_wait(ring.begun, 0);
        barrier_wait(ring.empty + 8 * slot, phase);
        const u32 barrier = ring.full + 8 * slot, to = ring.weights + slot * kWeightSlot;
        barrier_expect(barrier, 2 * bytes);
        bulk_copy_once(to, from, bytes, barrier, policy);
        bulk_copy_once(to + bytes, from + half, bytes, barrier, policy);
        if (++slot == p.slots) slot = 0, phase ^= 1;
      }
    }
    tile += count;
  }
}

template <int Columns>
FT_DEVICE void stream_codes(const StreamRowsArgs& p, const RowsRing& ring) {
  constexpr int kGroup = Columns * 8 * 72, kSlot = kPiece * kSlices * kGroup;
  const int groups = p.linear.groups / kSlices, last = first_tile(p.linear, (int)blockIdx.x + 1);
  asm volatile("fence.proxy.async.global;" ::: "memory");
  int slot = 0, phase = 1;
  for (int tile = first_tile(p.linear, (int)blockIdx.x); tile < last; tile += bundle_of(last - tile)) {
    for (int group = 0; group < groups; group += kPiece) {
      const int bytes = min_(kPiece, groups - group) * kGroup;
      barrier_wait(ring.codes_empty + 8 * slot, phase);
      const u32 barrier = ring.codes_full + 8 * slot, to = ring.codes + slot * kSlot;
      barrier_expect(barrier, kSlices * bytes);
      for (int slice = 0; slice < kSlices; slice++)
        bulk_copy(to + slice * bytes, p.rows + (long long)(slice * groups + group) * kGroup, bytes, barrier);
      if (++slot == kCodeSlots) slot = 0, phase ^= 1;
    }
  }
}

FT_DEVICE void sync_multipliers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/// Where a warp is in the two rings, and how many tiles it has ended.
struct RowsWalk {
  int slot = 0, phase = 0, codes_slot = 0, codes_phase = 0, ended = 0;
};

/// A group's codes of all rows, with their scales and sums, as a lane has them.
template <int Columns>
struct RowsGroup {
  u32 x[Columns][4];
  float4 scales[Columns];

  FT_DEVICE_MEMBER void load(const u8* group) {
    constexpr int kRows = Columns * 8;
    const int quad = lane_of() >> 2, t = lane_of() & 3;
    FT_UNROLL for (int n = 0; n < Columns; n++) {
      FT_UNROLL for (int c = 0; c < 4; c++) x[n][c] =
          *(const u32*)(group + (c * kRows + n * 8 + quad) * 16 + t * 4);
      scales[n] = *(const float4*)(group + kRows * 64 + n * 64 + t * 16);
    }
  }
  /// acc += the product with a record of weights.
  FT_DEVICE_MEMBER void multiply(const u8* record, float (&acc)[Columns][4]) const {
    u32 low[4], high[4];
    split_halves(*(const uint4*)(record + lane_of() * 16), low, high);
    const uint2 pairs = *(const uint2*)(record + 512 + (lane_of() >> 2) * 8);
    const float scale[2] = {bf16_low(pairs.x), bf16_low(pairs.y)},
                bias[2] = {bf16_high(pairs.x), bf16_high(pairs.y)};
    FT_UNROLL for (int n = 0; n < Columns; n++) {
      int dots[4] = {0, 0, 0, 0};
      mma_bytes(dots, low[0], low[1], low[2], low[3], x[n][0], x[n][1]);
      mma_bytes(dots, high[0], high[1], high[2], high[3], x[n][2], x[n][3]);
      add_group(acc[n], dots, scale, bias, scales[n]);
    }
  }
};

/// Up to kTiles tiles by `Size` groups of all rows.
template <int Columns, int Size>
FT_DEVICE void multiply_piece(const StreamRowsArgs& p, const RowsRing& ring, const u8* weights,
                              const u8* codes, int count, RowsWalk& walk, float (&acc)[kTiles][Columns][4]) {
  constexpr int kGroup = Columns * 8 * 72;
  constexpr int kHeld = Columns < 4 ? Size : 1;  // groups whose codes are in registers
  const int warp = warp_of();
  barrier_wait(ring.codes_full + 8 * walk.codes_slot, walk.codes_phase);
  const u8* own = codes + walk.codes_slot * (kPiece * kSlices * kGroup) + warp * Size * kGroup;
  FT_UNROLL for (int first = 0; first < Size; first += kHeld) {
    RowsGroup<Columns> groups[kHeld];
    FT_UNROLL for (int g = 0; g < kHeld; g++) groups[g].load(own + (first + g) * kGroup);
    FT_UNROLL for (int tile = 0; tile < kTiles; tile++) {
      if (tile >= count) break;
      const bool turned = walk.slot + tile >= p.slots;
      const int slot = walk.slot + tile - (turned ? p.slots : 0);
      if (first == 0) barrier_wait(ring.full + 8 * slot, walk.phase ^ (turned ? 1 : 0));
      const u8* record =
          weights + slot * kWeightSlot + (warp >> 2) * Size * kQuad + (warp & 3) * kRecord + first * kQuad;
      FT_UNROLL for (int g = 0; g < kHeld; g++) groups[g].multiply(record + g * kQuad, acc[tile]);
      if (first + kHeld < Size) continue;
      __syncwarp();
      if (lane_of() == 0) barrier_arrive(ring.empty + 8 * slot);
    }
  }
  if (lane_of() == 0) barrier_arrive(ring.codes_empty + 8 * walk.codes_slot);
  if (++walk.codes_slot == kCodeSlots) walk.codes_slot = 0, walk.codes_phase ^= 1;
  walk.slot += count;
  if (walk.slot >= p.slots) walk.slot -= p.slots, walk.phase ^= 1;
}

/// The slices of a tile in order: the first warps have eight rows each.
template <int Columns>
FT_DEVICE void add_tile(const LinearArgs& linear, int tile, const float (&acc)[Columns][4], u8* sums,
                        int ended) {
  const int lane = lane_of(), warp = warp_of(), quad = lane >> 2, t = lane & 3;
  float4* buffer = (float4*)(sums + ended % 2 * (kSlices * Columns * 512));
  FT_UNROLL for (int n = 0; n < Columns; n++) buffer[(warp * Columns + n) * 32 + lane] =
      make_float4(acc[n][0], acc[n][1], acc[n][2], acc[n][3]);
  const auto row = [&](int j) { return 8 * warp + 2 * t + j % 2; };
  const auto output = [&](int j) { return tile * kTileOutputs + quad + j / 2 * 8; };
  const bool adds = linear.residual.data != nullptr;
  float before[4] = {0, 0, 0, 0};
  FT_UNROLL for (int j = 0; j < 4; j++) {
    if (adds && warp < Columns && row(j) < linear.rows && output(j) < linear.outputs)
      before[j] = linear.residual.data[(long long)row(j) * linear.residual.stride + output(j)];
  }
  sync_multipliers();
  if (warp >= Columns) return;
  float total[4];
  FT_UNROLL for (int slice = 0; slice < kSlices; slice++) {
    const float4 v = buffer[(slice * Columns + warp) * 32 + lane];
    const float own[4] = {v.x, v.y, v.z, v.w};
    FT_UNROLL for (int j = 0; j < 4; j++) total[j] = slice == 0 ? own[j] : total[j] + own[j];
  }
  FT_UNROLL for (int j = 0; j < 4; j++) {
    if (row(j) >= linear.rows || output(j) >= linear.outputs) continue;
    linear.out.data[(long long)row(j) * linear.out.stride + output(j)] =
        adds ? before[j] + total[j] : total[j];
  }
}

template <int Columns>
FT_DEVICE void multiply(const StreamRowsArgs& p, const RowsRing& ring, const u8* weights, const u8* codes,
                        u8* sums) {
  const int groups = p.linear.groups / kSlices, last = first_tile(p.linear, (int)blockIdx.x + 1);
  RowsWalk walk;
  if (threadIdx.x == 0) {
    barrier_wait(ring.codes_full, 0);
    barrier_arrive(ring.begun);
  }
  __syncwarp();
  for (int tile = first_tile(p.linear, (int)blockIdx.x); tile < last;) {
    const int count = bundle_of(last - tile);
    float acc[kTiles][Columns][4];
    FT_UNROLL for (int i = 0; i < kTiles; i++) FT_UNROLL for (int n = 0; n < Columns; n++)
        FT_UNROLL for (int j = 0; j < 4; j++) acc[i][n][j] = 0;
    FT_LOOP for (int group = 0; group + kPiece <= groups; group += kPiece)
        multiply_piece<Columns, kPiece>(p, ring, weights, codes, count, walk, acc);
    if (groups % kPiece != 0) multiply_piece<Columns, 1>(p, ring, weights, codes, count, walk, acc);
    FT_UNROLL for (int i = 0; i < kTiles; i++) {
      if (i >= count) break;
      add_tile<Columns>(p.linear, tile + i, acc[i], sums, walk.ended++);
    }
    tile += count;
  }
}

template <int Columns>
FT_DEVICE void stream_rows(const StreamRowsArgs& p, u8* memory) {
  constexpr int kCodeSlot = kPiece * kSlices * Columns * 8 * 72;
  const int warp = warp_of(), lane = lane_of();
  u8* codes = memory + p.slots * kWeightSlot;
  u8* sums = codes + kCodeSlots * kCodeSlot;
  RowsRing ring;
  ring.weights = shared_address(memory), ring.codes = shared_address(codes);
  ring.full = shared_address(sums) + 2 * kSlices * Columns * 512, ring.empty = ring.full + 8 * p.slots;
  ring.codes_full = ring.empty + 8 * p.slots, ring.codes_empty = ring.codes_full + 8 * kCodeSlots;
  ring.begun = ring.codes_empty + 8 * kCodeSlots;
  if (warp == 8 && lane == 0) {
    for (int i = 0; i < p.slots; i++) barrier_init(ring.full + 8 * i, 1), barrier_init(ring.empty + 8 * i, 8);
    for (int i = 0; i < kCodeSlots; i++)
      barrier_init(ring.codes_full + 8 * i, 1), barrier_init(ring.codes_empty + 8 * i, 8);
    barrier_init(ring.begun, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp == 8) {
    if (lane == 0) stream_weights(p, ring);
    return;
  }
  if (warp == 9) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (warp == 9) {
    if (lane == 0) stream_codes<Columns>(p, ring);
    return;
  }
  multiply<Columns>(p, ring, memory, codes, sums);
}

}  // namespace ft::cuda

#define FT_STREAM_ROWS(Columns)                           \
  FT_KERNEL(stream_rows_##Columns, StreamRowsArgs, 320) { \
    FT_DYNAMIC(memory);                                   \
    stream_rows<Columns>(p, memory);                      \
  }

namespace ft::cuda {

FT_STREAM_ROWS(2)
FT_STREAM_ROWS(3)
FT_STREAM_ROWS(4)

}  // namespace ft::cuda
