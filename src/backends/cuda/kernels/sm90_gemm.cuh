// Linears of many rows (prompts) with Hopper's asynchronous matrix instruction: 4-bit weights in groups of 64
// (sm90_gemm.cu) and other kinds (sm90_gemm_kinds.cu). Each block is persistent and computes output
// tiles of 256 outputs by `Rows` rows. Two warpgroups multiply 128 outputs each. A third copies records and
// rows (as swizzle_activations lays them out), one group per stage, and runs ahead into the next tile while
// sums are stored. Warps unpack the left operands of two tiles into registers. The rows of a group are split
// in two parts: one is scaled while the matrix unit multiplies the other. Results have the bits of
// linear_codes (linear.cu): the same chains, eight slices added in order.
#pragma once

#include "backends/cuda/kernels/hopper.cuh"
#include "backends/cuda/kernels/product.cuh"

namespace ft::cuda {

constexpr int kAsyncWarpTiles = 2;  // tiles of a warp

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define FT_REGISTERS_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define FT_REGISTERS_24 FT_REGISTERS_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define FT_EIGHT(d, i)                                                                        \
  "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), \
      "+r"(d[i + 6]), "+r"(d[i + 7])

/// Starts d = a * b, or d += a * b if `add`: a is 64 x 32 unsigned bytes in the registers of a warpgroup, b
/// is 32 x 32 or 32 x 48 signed bytes in shared memory.
FT_DEVICE void begin_product(int (&d)[16], const u32 (&a)[4], u64 b, int add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %21, 0; wgmma.mma_async.sync.aligned.m64n32k32.s32.u8.s8 "
      "{" FT_REGISTERS_16 "}, {%16,%17,%18,%19}, %20, p; }"
      : FT_EIGHT(d, 0), FT_EIGHT(d, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
FT_DEVICE void begin_product(int (&d)[24], const u32 (&a)[4], u64 b, int add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %29, 0; wgmma.mma_async.sync.aligned.m64n48k32.s32.u8.s8 "
      "{" FT_REGISTERS_24 "}, {%24,%25,%26,%27}, %28, p; }"
      : FT_EIGHT(d, 0), FT_EIGHT(d, 8), FT_EIGHT(d, 16)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
/// Waits until at most the last `Left` batches of products are running.
template <int Left>
FT_DEVICE void products_left() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
/// Products between order_products and close_products are one batch.
FT_DEVICE void order_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FT_DEVICE void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Copying threads give registers to multiplying ones.
FT_DEVICE void give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
FT_DEVICE void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
FT_DEVICE void hold_register(int& d) { asm volatile("" : "+r"(d)::"memory"); }
#else
/// The emulator multiplies at once, eight rows at a time.
template <int Count>
void begin_product(int (&d)[Count], const u32 (&a)[4], u64 b, int add) {
  const auto field = [b](int bit) { return (u32)(b >> bit & 0x3fff) * 16; };
  const u8* at = dynamic_memory + field(0) + (lane_of() >> 2) * 16 + (lane_of() & 3) * 4;
  for (int n = 0; n < Count; n += 4, at += field(32)) {
    int dot[4] = {0, 0, 0, 0};
    mma_bytes(dot, a[0], a[1], a[2], a[3], *(const u32*)at, *(const u32*)(at + field(16)));
    for (int i = 0; i < 4; i++) d[n + i] = (add != 0 ? d[n + i] : 0) + dot[i];
  }
}
template <int Left>
void products_left() {}
inline void order_products() {}
inline void close_products() {}
inline void give_registers() {}
inline void take_registers() {}
inline void hold_register(int& /*d*/) {}
#endif
/// Keeps the compiler from moving accesses to d across this point.
template <int Count>
FT_DEVICE void hold(int (&d)[kAsyncWarpTiles][Count]) {
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
    FT_UNROLL for (int i = 0; i < Count; i++) hold_register(d[m][i]);
  }
}

/// AsyncLayout as constants.
template <class Weights, int Rows>
struct AsyncPlaces {
  static constexpr AsyncLayout kAt = async_layout(Rows, Weights::kGroup, Weights::kRecord);
  static constexpr int kScales = kAt.scales, kRecords = kAt.records, kStage = kAt.stage, kStages = kAt.stages;
  static constexpr int kSums = kAt.sums, kFull = kAt.full, kEmpty = kAt.empty;
};

/// The output tiles of a block. Rows vary fastest.
struct AsyncItems {
  int rows, count;
  FT_DEVICE_MEMBER static int first() { return (int)blockIdx.x; }
  FT_DEVICE_MEMBER static int step() { return (int)gridDim.x; }
  FT_DEVICE_MEMBER int row_block(int item) const { return item % rows; }
  FT_DEVICE_MEMBER int tile(int item) const { return item / rows * kAsyncTiles; }
};

/// The barriers of the stages: four warps copy, eight multiply.
template <class Places>
FT_DEVICE void make_stage_barriers(u32 base) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < Places::kStages; i++) {
      barrier_init(base + Places::kFull + 8 * i, 4);
      barrier_init(base + Places::kEmpty + 8 * i, kAsyncThreads / 32);
    }
    publish_barriers();
  }
  sync_block();
}

/// Four warps fill the stages. Lanes 0 to 3 of each copy the records of one tile, lane 4 of the first copies
/// the rows. Past the last tile, the last one is copied again. One extra stage at the end feeds products that
/// are discarded.
template <class Weights, class Places>
FT_DEVICE void copy_stages(const AsyncGemmArgs& p, const AsyncItems& items, u32 base, int part) {
  constexpr int kRecord = Weights::kRecord;
  const int groups = p.linear.groups, lane = lane_of(), place = 4 * part + lane;
  const bool rows = lane == 4, copies = lane < 4 || (rows && part == 0);
  const u32 to = base + Places::kSums + (rows ? 0 : Places::kRecords + place * kRecord);
  const u32 bytes = rows ? Places::kRecords : kRecord;
  const u32 expected = 4 * kRecord + (part == 0 ? Places::kRecords : 0);
  int slot = 0, phase = 1;
  FT_LOOP for (int item = items.first();; item += items.step()) {
    const bool last = item >= items.count;
    const int own = last ? items.first() : item, tile = min_(items.tile(own) + place, p.linear.tiles - 1);
    const u8* from = rows ? p.rows + (long long)items.row_block(own) * groups * Places::kRecords
                          : p.linear.records + (long long)tile * groups * kRecord;
    const u8* at = from;
    RecordWalk walk;
    walk.begin(groups);
    FT_LOOP for (int g = last ? groups - 1 : 0; g < groups; g++) {
      const u32 barrier = base + Places::kFull + 8 * slot;
      barrier_wait(base + Places::kEmpty + 8 * slot, phase);
      if (lane == 0) barrier_expect(barrier, expected);
      if (copies) bulk_copy(to + slot * Places::kStage, at, bytes, barrier);
      walk.step();
      at = rows ? at + bytes : from + (long long)walk.record * kRecord;
      if (++slot == Places::kStages) slot = 0, phase ^= 1;
    }
    if (last) return;
  }
}

/// Unpacks the left operands of two tiles. `codes`: the lane's part of the first record.
template <class Weights>
FT_DEVICE void unpack(const u8* codes, u32 (&a)[kAsyncWarpTiles][Weights::kSteps][4]) {
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++)
      load_words<Weights::kBits, Weights::kSteps>(codes + m * 4 * Weights::kRecord, 0, a[m]);
}

/// Starts the products with `2 * Count` rows, whose codes are at `right`.
template <int Rows, int Count, int Steps>
FT_DEVICE void begin_products(int (&dot)[kAsyncWarpTiles][Count], const u32 (&a)[kAsyncWarpTiles][Steps][4],
                              u64 right) {
  hold(dot);
  order_products();
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
    FT_UNROLL for (int j = 0; j < Steps; j++) begin_product(dot[m], a[m][j], right + j * 2 * Rows, j);
  }
  close_products();
}

template <bool Which, class Yes, class No>
struct Either {
  using Type = Yes;
};
template <class Yes, class No>
struct Either<false, Yes, No> {
  using Type = No;
};

/// The first scales of a part, loaded before its integers are ready.
template <class Weights>
struct PartScales {
  struct Pairs {
    u32 x, y;  // of two outputs
    FT_DEVICE_MEMBER float scale(int output) const {
      return pair_low(output == 0 ? x : y, Weights::kScaleType);
    }
    FT_DEVICE_MEMBER float bias(int output) const {
      return pair_high(output == 0 ? x : y, Weights::kScaleType);
    }
  };
  struct FloatPairs {
    float4 v;
    FT_DEVICE_MEMBER float scale(int output) const { return output == 0 ? v.x : v.z; }
    FT_DEVICE_MEMBER float bias(int output) const { return output == 0 ? v.y : v.w; }
  };
  static constexpr bool kFloats = Weights::kScaleType == kFloatScales;
  typename Either<kFloats, FloatPairs, Pairs>::Type pairs[kAsyncWarpTiles];
  float4 rows;
  FT_DEVICE_MEMBER void load(const u8* weights, const u8* scales) {
    FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
      const u8* const at = weights + m * 4 * Weights::kRecord;
      if constexpr (kFloats) {
        pairs[m] = {*(const float4*)at};
      } else {
        const uint2 both = *(const uint2*)at;
        pairs[m] = {both.x, both.y};
      }
    }
    rows = *(const float4*)scales;
  }
};

/// Scales the finished integers of `2 * Count` rows from row First on and adds them to acc. `scales`: of
/// these rows.
template <int First, int Rows, class Weights, int Count>
FT_DEVICE void add_products(const int (&dot)[kAsyncWarpTiles][Count], const PartScales<Weights>& part,
                            const u8* scales, float (&acc)[kAsyncWarpTiles][Rows / 2]) {
  float4 s = part.rows;
  FT_UNROLL for (int n = 0; n < Count / 4; n++) {
    const float4 next = *(const float4*)(scales + min_(n + 1, Count / 4 - 1) * 64);
    FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
      FT_UNROLL for (int i = 0; i < 4; i++) {
        const auto& pair = part.pairs[m];
        float& to = acc[m][First / 2 + 4 * n + i];
        to = fma_(pair.bias(i / 2), i % 2 == 0 ? s.y : s.w,
                  fma_((float)dot[m][4 * n + i], pair.scale(i / 2) * (i % 2 == 0 ? s.x : s.z), to));
      }
    }
    s = next;
  }
}

/// Adds a slice to the sum of the earlier ones, which stays in shared memory.
template <int Rows>
FT_DEVICE void add_slice(int slice, float (&acc)[kAsyncWarpTiles][Rows / 2], float4* totals) {
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
    FT_UNROLL for (int n = 0; n < Rows / 8; n++) {
      float* sum = acc[m] + 4 * n;
      float4& total = totals[(m * (Rows / 8) + n) * kAsyncThreads];
      const float4 old = total;
      total = slice == 0 ? make_float4(sum[0], sum[1], sum[2], sum[3])
                         : make_float4(old.x + sum[0], old.y + sum[1], old.z + sum[2], old.w + sum[3]);
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
    }
  }
}

/// `Halves`: the sums are those of rows of halves.
template <int Rows, bool Halves = false>
FT_DEVICE void store_sums(const LinearArgs& p, int tile, int row0, float (&acc)[kAsyncWarpTiles][Rows / 2],
                          const float4* totals) {
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
    FT_UNROLL for (int n = 0; n < Rows / 8; n++) {
      const float4 four = totals[(m * (Rows / 8) + n) * kAsyncThreads];
      const float total[4] = {four.x, four.y, four.z, four.w};
      FT_UNROLL for (int i = 0; i < 4; i++) {
        const int row = row0 + 8 * n + 2 * t + i % 2;
        const int output = (tile + 4 * m) * kTileOutputs + quad + i / 2 * 8;
        if (row >= p.rows || output >= p.outputs) continue;
        float value = total[i] + acc[m][4 * n + i];
        if constexpr (Halves) value = value * kWholeHalfSum;
        if (p.residual.data != nullptr)
          value = p.residual.data[(long long)row * p.residual.stride + output] + value;
        p.out.data[(long long)row * p.out.stride + output] = value;
      }
    }
  }
}

/// The loop of the two multiplying warpgroups. Warp w has tiles w and w + 4 of eight.
template <class Weights, int Rows>
FT_DEVICE void multiply(const LinearArgs& p, const AsyncItems& items, u8* memory) {
  using Places = AsyncPlaces<Weights, Rows>;
  constexpr int kFirst = Rows == 64 ? 32 : 48;  // rows in the first part
  const int lane = lane_of(), tile = warp_of() / 4 * 8 + warp_of() % 4;
  const u32 base = shared_address(memory);
  float4* totals = (float4*)memory + threadIdx.x;
  const u8* stage = memory + Places::kSums;
  // Offsets of a thread in a stage: weight codes, weight scales, row scales.
  const int codes_at = Places::kRecords + tile * Weights::kRecord + lane * min_(16, Weights::kCodes / 32);
  const int weights_at =
      Places::kRecords + tile * Weights::kRecord + Weights::kCodes + (lane >> 2) * 2 * Weights::kPairBytes;
  const int scales_at = Places::kScales + (lane & 3) * 16;
  // In units of 16 bytes: strides are `Rows` for 16 inputs and 8 for eight rows.
  u32 right = (base + Places::kSums) >> 4 | (u32)Rows << 16;
  const auto operand = [](u32 low) { return (u64)8 << 32 | low; };
  float acc[kAsyncWarpTiles][Rows / 2];
  int front[kAsyncWarpTiles][kFirst / 2], back[kAsyncWarpTiles][(Rows - kFirst) / 2];
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
    FT_UNROLL for (int i = 0; i < Rows / 2; i++) acc[m][i] = 0;
    FT_UNROLL for (int i = 0; i < kFirst / 2; i++) front[m][i] = 0;
    FT_UNROLL for (int i = 0; i < (Rows - kFirst) / 2; i++) back[m][i] = 0;
  }
  u32 full = base + Places::kFull, phase = 0;
  barrier_wait(full, 0);
  u32 a[kAsyncWarpTiles][Weights::kSteps][4];
  unpack<Weights>(stage + codes_at, a);
  begin_products<Rows>(front, a, operand(right));
  begin_products<Rows>(back, a, operand(right + kFirst));
  PartScales<Weights> part;
  part.load(stage + weights_at, stage + scales_at);
  FT_LOOP for (int item = items.first(); item < items.count; item += items.step()) {
    FT_LOOP for (int slice = 0; slice < kSplitK; slice++) {
      int left = p.groups * (slice + 1) / kSplitK - p.groups * slice / kSplitK;
      FT_LOOP for (; left > 0; left--) {
        products_left<1>();
        hold(front);
        add_products<0, Rows>(front, part, stage + scales_at, acc);
        const u8* const now = stage + scales_at + kFirst * 8;
        part.load(stage + weights_at, now);
        const u32 done = full + (Places::kEmpty - Places::kFull);
        stage += Places::kStage, right += Places::kStage / 16, full += 8;
        if (full == base + Places::kEmpty) {
          stage -= Places::kStages * Places::kStage, right -= Places::kStages * (Places::kStage / 16);
          full -= 8 * Places::kStages, phase ^= 1;
        }
        barrier_wait(full, phase);
        products_left<0>();
        hold(back);
        unpack<Weights>(stage + codes_at, a);
        begin_products<Rows>(front, a, operand(right));
        add_products<kFirst, Rows>(back, part, now, acc);
        part.load(stage + weights_at, stage + scales_at);
        sync_warp();
        if (lane == 0) barrier_arrive(done);
        begin_products<Rows>(back, a, operand(right + kFirst));
      }
      if (slice < kSplitK - 1) add_slice<Rows>(slice, acc, totals);
    }
    store_sums<Rows>(p, items.tile(item) + tile, items.row_block(item) * Rows, acc, totals);
    FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) FT_UNROLL for (int i = 0; i < Rows / 2; i++)
        acc[m][i] = 0;
  }
  products_left<0>();
  hold(front);
  hold(back);
}

// x: any number of blocks.
template <class Weights, int Rows>
FT_DEVICE void async_gemm(const AsyncGemmArgs& p, u8* memory) {
  using Places = AsyncPlaces<Weights, Rows>;
  const u32 base = shared_address(memory);
  AsyncItems items;
  items.rows = (p.linear.rows + Rows - 1) / Rows;
  items.count = items.rows * ((p.linear.tiles + kAsyncTiles - 1) / kAsyncTiles);
  make_stage_barriers<Places>(base);
  begin_kernel();
  if (warp_of() >= kAsyncThreads / 32) {
    give_registers();
    order_copies();
    copy_stages<Weights, Places>(p, items, base, warp_of() - kAsyncThreads / 32);
  } else {
    take_registers();
    multiply<Weights, Rows>(p.linear, items, memory);
  }
}

}  // namespace ft::cuda
