// The linear of 9 to 64 rows for 4-bit weights in groups of 64 (sm_90 and later). Eight SMs form a cluster,
// and each has one of the eight slices of K: its codes of all rows stay in shared memory; weights are read
// once. In a block, eight warps multiply different tiles, two stream records, one adds: the slices of a tile
// are sent to one block of the cluster, which adds them in order. The bits equal linear_codes'.
#include "backends/cuda/kernels/hopper.cuh"
#include "backends/cuda/kernels/product.cuh"

namespace ft::cuda {

constexpr int kCopiers = 2;  // warps

struct RowsRing {
  u32 base, full, empty, part, freed, ready;  // shared addresses
  SplitKLayout at;
};

FT_DEVICE u32 block_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// A shared address of this block in another block of the cluster.
FT_DEVICE u32 address_in(u32 address, int block) {
  u32 out;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(address), "r"(block));
  return out;
}
FT_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
FT_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
FT_DEVICE void arrive_in(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
FT_DEVICE void send(u32 to, const float (&v)[4], u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(
          to),
      "r"(bits_of(v[0])), "r"(bits_of(v[1])), "r"(bits_of(v[2])), "r"(bits_of(v[3])), "r"(barrier)
      : "memory");
}

/// The tiles of a cluster.
struct RowsTiles {
  int first, count;
};
FT_DEVICE RowsTiles tiles_of(const LinearArgs& linear) {
  const int clusters = (int)gridDim.x / kSplitK, cluster = (int)blockIdx.x / kSplitK;
  const int first = (int)((long long)linear.tiles * cluster / clusters);
  return {first, (int)((long long)linear.tiles * (cluster + 1) / clusters) - first};
}

/// Two warps whose lanes copy up to three groups of a tile each. (A lane's copy takes 66 cycles of its warp,
/// and the memory delivers it in as many.)
template <int Columns>
FT_DEVICE void stream_records(const SplitKGemmArgs& p, const RowsRing& ring, RowsTiles tiles, int slice,
                              int part) {
  constexpr int kTiles = 8 * held_tiles(Columns), kStage = splitk_stage_bytes(Columns);
  const int own = part + kCopiers * lane_of(), piece = piece_groups(slice_groups(p.linear.groups));
  const int groups = slice_begin(p.linear.groups, slice + 1) - slice_begin(p.linear.groups, slice);
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  int slot = 0, phase = 1, fills = 0;
  for (int first = 0; first < tiles.count; first += kTiles) {
    const bool copies = own < min_(kTiles, tiles.count - first);
    const int count = __popc(__ballot_sync(~0u, copies));
    const u8* tile =
        p.linear.records + (long long)(tiles.first + first + own) * p.linear.groups * kStreamedRecord;
    for (int start = 0; start < groups; start += piece) {
      const int size = min_(piece, groups - start);
      const u8* from = tile + piece_record(p.linear.groups, slice, start, piece) * kStreamedRecord;
      for (int group = 0; group < size; group += kSplitKChunk, from += kSplitKChunk * kStreamedRecord) {
        if (fills++ == p.early) barrier_wait(ring.ready, 0);  // x passes before the rest of the ring fills
        barrier_wait(ring.empty + 8 * slot, phase);
        const u32 barrier = ring.full + 8 * slot;
        const int bytes = min_(kSplitKChunk, size - group) * kStreamedRecord;
        if (lane_of() == 0) barrier_expect(barrier, count * bytes);
        __syncwarp();
        if (copies)
          bulk_copy_once(ring.base + slot * kStage + own * kSplitKChunk * kStreamedRecord, from, bytes,
                         barrier, policy);
        if (++slot == p.stages) slot = 0, phase ^= 1;
      }
    }
  }
}

template <int Columns>
FT_DEVICE void fetch_slice(const LinearArgs& linear, const RowsRing& ring, int slice) {
  const int k = linear.groups * 64, columns = (linear.rows + 7) / 8;
  const int first = slice_begin(linear.groups, slice) * 64,
            bytes = slice_begin(linear.groups, slice + 1) * 64 - first;
  asm volatile("fence.proxy.async.global;" ::: "memory");
  if (lane_of() == 0) barrier_expect(ring.ready, (linear.rows + columns) * bytes);
  __syncwarp();
  for (int r = lane_of(); r < linear.rows; r += 32)
    bulk_copy(ring.base + ring.at.x + r * ring.at.x_stride, linear.codes + (long long)r * k + first, bytes,
              ring.ready);
  if (lane_of() < columns)
    bulk_copy(ring.base + ring.at.scales + lane_of() * bytes,
              (const u8*)linear.scales + (long long)lane_of() * k + first, bytes, ring.ready);
}

/// A lane's part of a group's codes of all rows, with their scales and sums.
template <int Columns>
struct RowsGroup {
  uint4 x[Columns];
  float4 scales[Columns];

  /// acc += the product with a record of weights.
  FT_DEVICE_MEMBER void multiply(const u8* record, float (&acc)[Columns][4]) const {
    u32 low[4], high[4];
    split_halves(*(const uint4*)(record + lane_of() * 16), low, high);
    const uint2 pairs = *(const uint2*)(record + 512 + (lane_of() >> 2) * 8);
    const float scale[2] = {bf16_low(pairs.x), bf16_low(pairs.y)},
                bias[2] = {bf16_high(pairs.x), bf16_high(pairs.y)};
    int dots[Columns][4];
    FT_UNROLL for (int n = 0; n < Columns; n++) {
      FT_UNROLL for (int j = 0; j < 4; j++) dots[n][j] = 0;
      mma_bytes(dots[n], low[0], low[1], low[2], low[3], x[n].x, x[n].y);
    }
    FT_UNROLL for (int n = 0; n < Columns; n++)
        mma_bytes(dots[n], high[0], high[1], high[2], high[3], x[n].z, x[n].w);
    FT_UNROLL for (int n = 0; n < Columns; n++) add_group(acc[n], dots[n], scale, bias, scales[n]);
  }
};

/// Sends a tile's slice to the block that adds it: the tile's number modulo eight. Waits until that block has
/// added the tile that was in this place.
template <int Columns>
FT_DEVICE void send_slice(const RowsRing& ring, int tile, int slice, const float (&acc)[Columns][4]) {
  const int turn = tile / 8, b = turn % kSplitKSums;
  if (turn >= kSplitKSums) barrier_wait(ring.freed + 8 * b, (turn / kSplitKSums - 1) & 1);
  const u32 barrier = address_in(ring.part + 8 * b, tile % 8);
  const u32 to = address_in(ring.base + ring.at.sums + (b * kSplitK + slice) * Columns * 512, tile % 8);
  FT_UNROLL for (int n = 0; n < Columns; n++) send(to + n * 512 + lane_of() * 16, acc[n], barrier);
}

template <int Columns>
FT_DEVICE void multiply(const SplitKGemmArgs& p, const RowsRing& ring, u8* memory, RowsTiles tiles,
                        int slice) {
  constexpr int kHeld = held_tiles(Columns), kStage = splitk_stage_bytes(Columns);
  const int warp = warp_of(), lane = lane_of(), quad = lane >> 2, t = lane & 3,
            piece = piece_groups(slice_groups(p.linear.groups));
  const int groups = slice_begin(p.linear.groups, slice + 1) - slice_begin(p.linear.groups, slice);
  const u8* x[Columns];
  FT_UNROLL for (int n = 0; n < Columns; n++)  // rows beyond the last read it: columns are independent
      x[n] = memory + ring.at.x + min_(8 * n + quad, p.linear.rows - 1) * ring.at.x_stride + t * 16;
  const u8* const scales = memory + ring.at.scales + t * 16;
  barrier_wait(ring.ready, 0);
  int slot = 0, phase = 0;
  for (int first = 0; first < tiles.count; first += 8 * kHeld) {
    const int tile = first + warp;
    const bool whole = tile + 8 * (kHeld - 1) < tiles.count;
    float acc[kHeld][Columns][4];
    FT_UNROLL for (int h = 0; h < kHeld; h++) FT_UNROLL for (int n = 0; n < Columns; n++)
        FT_UNROLL for (int j = 0; j < 4; j++) acc[h][n][j] = 0;
    for (int at = 0, left = 0, count; at < groups; at += count, left -= count) {
      if (left == 0) left = min_(piece, groups - at);  // no division: it would take as long as a product
      count = min_(kSplitKChunk, left);
      barrier_wait(ring.full + 8 * slot, phase);
      const u8* const stage = memory + slot * kStage + warp * kSplitKChunk * kStreamedRecord;
      const auto take = [&](RowsGroup<Columns>& group, int g) {
        FT_UNROLL for (int n = 0; n < Columns; n++) {
          group.x[n] = *(const uint4*)(x[n] + (at + g) * 64);
          group.scales[n] = *(const float4*)(scales + (n * groups + at + g) * 64);
        }
      };
      if (whole) {
        int g = 0;
        if (count >= 2) {  // without a branch, so that the loads of one product overlap with another
          FT_UNROLL for (int i = 0; i < 2; i++) {
            RowsGroup<Columns> group;
            take(group, i);
            FT_UNROLL for (int h = 0; h < kHeld; h++)
                group.multiply(stage + (8 * h * kSplitKChunk + i) * kStreamedRecord, acc[h]);
          }
          g = 2;
        }
        if (g < count) {
          RowsGroup<Columns> group;
          take(group, g);
          FT_UNROLL for (int h = 0; h < kHeld; h++)
              group.multiply(stage + (8 * h * kSplitKChunk + g) * kStreamedRecord, acc[h]);
        }
      } else if (tile < tiles.count) {
        FT_LOOP for (int g = 0; g < count; g++) {
          RowsGroup<Columns> group;
          take(group, g);
          group.multiply(stage + g * kStreamedRecord, acc[0]);
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(ring.empty + 8 * slot);
      if (++slot == p.stages) slot = 0, phase ^= 1;
    }
    FT_UNROLL for (int h = 0; h < kHeld; h++) {
      if (tile + 8 * h < tiles.count) send_slice<Columns>(ring, tile + 8 * h, slice, acc[h]);
    }
  }
}

/// Adds the slices of this block's tiles: every eighth one.
template <int Columns>
FT_DEVICE void add_tiles(const LinearArgs& linear, const RowsRing& ring, const u8* memory, RowsTiles tiles,
                         int block) {
  constexpr int kBytes = kSplitK * Columns * 512;
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  const bool adds = linear.residual.data != nullptr;
  if (lane < kSplitKSums) barrier_expect(ring.part + 8 * lane, kBytes);
  __syncwarp();
  for (int turn = 0, tile = block; tile < tiles.count; turn++, tile += 8) {
    const int b = turn % kSplitKSums;
    const auto row = [&](int n, int j) { return 8 * n + 2 * t + j % 2; };
    const auto output = [&](int j) { return (tiles.first + tile) * kTileOutputs + quad + j / 2 * 8; };
    const auto live = [&](int n, int j) { return row(n, j) < linear.rows && output(j) < linear.outputs; };
    float before[Columns][4];
    FT_UNROLL for (int n = 0; n < Columns; n++) FT_UNROLL for (int j = 0; j < 4; j++) {
      before[n][j] = adds && live(n, j)
                         ? linear.residual.data[(long long)row(n, j) * linear.residual.stride + output(j)]
                         : 0.0f;
    }
    barrier_wait(ring.part + 8 * b, turn / kSplitKSums & 1);
    float total[Columns][4];
    const float4* const sums = (const float4*)(memory + ring.at.sums + b * kBytes) + lane;
    FT_UNROLL for (int n = 0; n < Columns; n++) FT_UNROLL for (int slice = 0; slice < kSplitK; slice++) {
      const float4 v = sums[(slice * Columns + n) * 32];
      const float own[4] = {v.x, v.y, v.z, v.w};
      FT_UNROLL for (int j = 0; j < 4; j++) total[n][j] = slice == 0 ? own[j] : total[n][j] + own[j];
    }
    __syncwarp();
    if (lane == 0) barrier_expect(ring.part + 8 * b, kBytes);
    __syncwarp();
    if (8 * (turn + kSplitKSums) < tiles.count && lane < kSplitK)
      arrive_in(
          address_in(ring.freed + 8 * b, lane));  // the last ones are not awaited: blocks may have ended
    FT_UNROLL for (int n = 0; n < Columns; n++) FT_UNROLL for (int j = 0; j < 4; j++) {
      if (live(n, j))
        linear.out.data[(long long)row(n, j) * linear.out.stride + output(j)] =
            adds ? before[n][j] + total[n][j] : total[n][j];
    }
  }
}

template <int Columns>
FT_DEVICE void splitk_cluster_gemm(const SplitKGemmArgs& p, u8* memory) {
  const int warp = warp_of(), lane = lane_of(), slice = (int)block_rank();
  const RowsTiles tiles = tiles_of(p.linear);
  RowsRing ring;
  ring.base = shared_address(memory), ring.at = splitk_layout(p, Columns);
  ring.full = ring.base + ring.at.barriers;
  ring.empty = ring.full + 8 * p.stages, ring.part = ring.empty + 8 * p.stages;
  ring.freed = ring.part + 8 * kSplitKSums, ring.ready = ring.freed + 8 * kSplitKSums;
  if (warp == 8 && lane == 0) {
    for (int i = 0; i < p.stages; i++)
      barrier_init(ring.full + 8 * i, kCopiers), barrier_init(ring.empty + 8 * i, 8);
    for (int i = 0; i < kSplitKSums; i++)
      barrier_init(ring.part + 8 * i, 1), barrier_init(ring.freed + 8 * i, kSplitK);
    barrier_init(ring.ready, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  cluster_arrive();
  if (warp > 8) {
    stream_records<Columns>(p, ring, tiles, slice, warp - 9);
    __syncwarp();
    return cluster_wait();
  }
  if (warp == 8) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (warp == 8) {
    fetch_slice<Columns>(p.linear, ring, slice);
    __syncwarp();
    cluster_wait();
    return add_tiles<Columns>(p.linear, ring, memory, tiles, slice);
  }
  cluster_wait();
  multiply<Columns>(p, ring, memory, tiles, slice);
}

}  // namespace ft::cuda

#define FT_STREAM_ROWS(Columns)                                                                         \
  FT_KERNEL_CLUSTER(splitk_cluster_gemm_##Columns, SplitKGemmArgs, kSplitKThreads, ft::cuda::kSplitK) { \
    FT_DYNAMIC(memory);                                                                                 \
    splitk_cluster_gemm<Columns>(p, memory);                                                            \
  }

namespace ft::cuda {

FT_STREAM_ROWS(2)
FT_STREAM_ROWS(3)
FT_STREAM_ROWS(4)
FT_STREAM_ROWS(6)
FT_STREAM_ROWS(8)

}  // namespace ft::cuda
