// Linears of many rows (prompts) with rows of halves (half.cuh) by Hopper's asynchronous matrix instruction,
// for 4 and 8 bits in groups of 64 and 32. Blocks, stages and slices are those of sm90_gemm.cuh. A warp has
// two tiles of 16 outputs: one is scaled and unpacked while the matrix unit multiplies the other. The bits
// are those of linear_half: the same steps of sixteen inputs and fused additions, eight slices in order.
#include "backends/cuda/kernels/half.cuh"
#include "backends/cuda/kernels/hopper_kinds.h"
#include "backends/cuda/kernels/sm90_gemm.cuh"

namespace ft::cuda {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define FT_REGISTERS_32 FT_REGISTERS_24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define FT_EIGHT_SUMS(d, i)                                                                   \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
/// Starts d = a * b, or d += a * b if `add`: a is 64 x 16 halves in the registers of a warpgroup, b is 16 x
/// 64 halves in shared memory.
FT_DEVICE void begin_half_product(float (&d)[32], const u32 (&a)[4], u64 b, int add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{" FT_REGISTERS_32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
      : FT_EIGHT_SUMS(d, 0), FT_EIGHT_SUMS(d, 8), FT_EIGHT_SUMS(d, 16), FT_EIGHT_SUMS(d, 24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
FT_DEVICE void hold_sum(float& d) { asm volatile("" : "+f"(d)::"memory"); }
#else
/// The emulator multiplies at once, eight rows at a time.
inline void begin_half_product(float (&d)[32], const u32 (&a)[4], u64 b, int add) {
  const auto field = [b](int bit) { return (u32)(b >> bit & 0x3fff) * 16; };
  const u8* at = dynamic_memory + field(0) + (lane_of() >> 2) * 16 + (lane_of() & 3) * 4;
  for (int n = 0; n < 32; n += 4, at += field(32)) {
    float dot[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) dot[i] = add != 0 ? d[n + i] : 0;
    mma_halves(dot, a, *(const u32*)at, *(const u32*)(at + field(16)));
    for (int i = 0; i < 4; i++) d[n + i] = dot[i];
  }
}
inline void hold_sum(float& /*d*/) {}
#endif
/// Keeps the compiler from moving accesses to d across this point.
FT_DEVICE void hold_sums(float (&d)[32]) { FT_UNROLL for (int i = 0; i < 32; i++) hold_sum(d[i]); }

/// Scales and biases of two outputs, as they are packed.
template <int Type>
struct LaneHalfScales {
  uint2 pairs;
  FT_DEVICE_MEMBER void load(const u8* at) { pairs = *(const uint2*)at; }
  FT_DEVICE_MEMBER float scale(int i) const { return pair_low(i == 0 ? pairs.x : pairs.y, Type); }
  FT_DEVICE_MEMBER float bias(int i) const { return pair_high(i == 0 ? pairs.x : pairs.y, Type); }
};
template <>
struct LaneHalfScales<kFloatScales> {
  float4 pairs;
  FT_DEVICE_MEMBER void load(const u8* at) { pairs = *(const float4*)at; }
  FT_DEVICE_MEMBER float scale(int i) const { return i == 0 ? pairs.x : pairs.z; }
  FT_DEVICE_MEMBER float bias(int i) const { return i == 0 ? pairs.y : pairs.w; }
};

/// AsyncLayout of rows of halves as constants.
template <class Weights>
struct HalfPlaces {
  static constexpr AsyncLayout kAt = async_half_layout(Weights::kGroup, Weights::kRecord);
  static constexpr int kScales = kAt.scales, kRecords = kAt.records, kStage = kAt.stage, kStages = kAt.stages;
  static constexpr int kSums = kAt.sums, kFull = kAt.full, kEmpty = kAt.empty;
};

/// A lane's part of a tile's record: its codes, and the scales and biases of its two outputs.
template <class Weights>
struct HalfTile {
  HalfWords<Weights::kBits, Weights::kGroup> words;
  LaneHalfScales<Weights::kScaleType> scales;
  FT_DEVICE_MEMBER void load(const u8* record) {
    words.load(record, lane_of());
    scales.load(record + Weights::kCodes + (lane_of() >> 2) * 2 * Weights::kPairBytes);
  }
};

/// Starts the product of a tile with a group of 64 rows, which are at `right`.
template <class Weights>
FT_DEVICE void begin_half_products(float (&dot)[32], u32 (&a)[Weights::kGroup / 16][4],
                                   const HalfTile<Weights>& tile, u64 right) {
  tile.words.unpack(a);
  hold_sums(dot);
  order_products();
  FT_UNROLL for (int j = 0; j < Weights::kGroup / 16; j++)
      begin_half_product(dot, a[j], right + j * 2 * kAsyncHalfRows, j);
  close_products();
}

/// The sums of a lane's rows of a group: of rows 2 t and 2 t + 1 of two eights each.
struct HalfRowSums {
  float4 of[4];
  FT_DEVICE_MEMBER void load(const u8* at) {
    FT_UNROLL for (int i = 0; i < 4; i++) of[i] = *(const float4*)(at + i * 64);
  }
  FT_DEVICE_MEMBER float row(int n, int second) const {
    const float4& two = of[n / 2];
    return n % 2 == 0 ? (second ? two.y : two.x) : (second ? two.w : two.z);
  }
};

/// acc += the finished sums of a tile and group.
template <int Type>
FT_DEVICE void add_half_products(const float (&dot)[32], const LaneHalfScales<Type>& scales,
                                 const HalfRowSums& sums, float (&acc)[32]) {
  const float scale[2] = {scales.scale(0), scales.scale(1)}, bias[2] = {scales.bias(0), scales.bias(1)};
  FT_UNROLL for (int n = 0; n < 8; n++) {
    FT_UNROLL for (int i = 0; i < 4; i++) {
      float& to = acc[4 * n + i];
      to = fma_(bias[i / 2], sums.row(n, i % 2), fma_(dot[4 * n + i], scale[i / 2], to));
    }
  }
}

/// The loop of the two multiplying warpgroups. Warp w has tiles w and w + 4 of eight.
template <class Weights>
FT_DEVICE void multiply_half(const LinearArgs& p, const AsyncItems& items, u8* memory) {
  using Places = HalfPlaces<Weights>;
  constexpr int kRows = kAsyncHalfRows;
  const int lane = lane_of(), tile = warp_of() / 4 * 8 + warp_of() % 4;
  const u32 base = shared_address(memory);
  float4* totals = (float4*)memory + threadIdx.x;
  const u8* stage = memory + Places::kSums;
  const int records_at = Places::kRecords + tile * Weights::kRecord,
            sums_at = Places::kScales + lane % 4 * 16;
  // In units of 16 bytes: strides are `kRows` for 8 inputs and 8 for eight rows.
  u32 right = (base + Places::kSums) >> 4 | (u32)kRows << 16;
  const auto operand = [](u32 low) { return (u64)8 << 32 | low; };
  float acc[kAsyncWarpTiles][kRows / 2], dot[kAsyncWarpTiles][kRows / 2];
  u32 a[kAsyncWarpTiles][Weights::kGroup / 16][4];
  LaneHalfScales<Weights::kScaleType> scales[kAsyncWarpTiles];
  u32 full = base + Places::kFull, phase = 0;
  barrier_wait(full, 0);
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
    FT_UNROLL for (int i = 0; i < kRows / 2; i++) acc[m][i] = dot[m][i] = 0;
    HalfTile<Weights> first;
    first.load(stage + records_at + m * 4 * Weights::kRecord);
    scales[m] = first.scales;
    begin_half_products<Weights>(dot[m], a[m], first, operand(right));
  }
  FT_LOOP for (int item = items.first(); item < items.count; item += items.step()) {
    FT_LOOP for (int slice = 0; slice < kSplitK; slice++) {
      int left = p.groups * (slice + 1) / kSplitK - p.groups * slice / kSplitK;
      FT_LOOP for (; left > 0; left--) {
        HalfRowSums sums;
        sums.load(stage + sums_at);
        const u32 done = full + (Places::kEmpty - Places::kFull);
        stage += Places::kStage, right += Places::kStage / 16, full += 8;
        if (full == base + Places::kEmpty) {
          stage -= Places::kStages * Places::kStage, right -= Places::kStages * (Places::kStage / 16);
          full -= 8 * Places::kStages, phase ^= 1;
        }
        barrier_wait(full, phase);
        FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) {
          HalfTile<Weights> next;
          next.load(stage + records_at + m * 4 * Weights::kRecord);
          products_left<1>();
          hold_sums(dot[m]);
          add_half_products(dot[m], scales[m], sums, acc[m]);
          scales[m] = next.scales;
          if (m == kAsyncWarpTiles - 1) {
            sync_warp();
            if (lane == 0) barrier_arrive(done);
          }
          begin_half_products<Weights>(dot[m], a[m], next, operand(right));
        }
      }
      if (slice < kSplitK - 1) add_slice<kRows>(slice, acc, totals);
    }
    store_sums<kRows, true>(p, items.tile(item) + tile, items.row_block(item) * kRows, acc, totals);
    FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) FT_UNROLL for (int i = 0; i < kRows / 2; i++)
        acc[m][i] = 0;
  }
  products_left<0>();
  FT_UNROLL for (int m = 0; m < kAsyncWarpTiles; m++) hold_sums(dot[m]);
}

// x: any number of blocks.
template <class Weights>
FT_DEVICE void async_half_gemm(const AsyncGemmArgs& p, u8* memory) {
  using Places = HalfPlaces<Weights>;
  const u32 base = shared_address(memory);
  AsyncItems items;
  items.rows = (p.linear.rows + kAsyncHalfRows - 1) / kAsyncHalfRows;
  items.count = items.rows * ((p.linear.tiles + kAsyncTiles - 1) / kAsyncTiles);
  make_stage_barriers<Places>(base);
  begin_kernel();
  if (warp_of() >= kAsyncThreads / 32) {
    give_registers();
    order_copies();
    copy_stages<Weights, Places>(p, items, base, warp_of() - kAsyncThreads / 32);
  } else {
    take_registers();
    multiply_half<Weights>(p.linear, items, memory);
  }
}

}  // namespace ft::cuda

#define FT_ASYNC_HALF(Bits, Group, Scales)                                           \
  FT_KERNEL_SHARING(async_gemm_half_##Bits##_##Group##_##Scales##_64, AsyncGemmArgs, \
                    kAsyncThreads + kAsyncCopiers, 1) {                              \
    FT_DYNAMIC(memory);                                                              \
    async_half_gemm<StreamedWeights<Bits, Group, Scales>>(p, memory);                \
  }

namespace ft::cuda {

FT_HOPPER_HALF_KINDS(FT_ASYNC_HALF)

// [block of 64 rows][group]: halves as [8 or 4 parts][rows][16 bytes], then the sums of rows, as HalfRowSums
// reads them. Parts 2 j and 2 j + 1 of a row have step j: the first pairs of the four lanes, the second
// pairs. Rows beyond the last are zeros. x: four groups; y: 64 rows; thread: a row and group.
template <int Group>
FT_DEVICE void swizzle_halves(const SwizzleArgs& p) {
  constexpr int kPieces = Group / 8, kOfLane = kPieces / 4;  // of 16 bytes, of a row
  const int in_tile = warp_of() * 8 + lane_of() % 8, row = (int)blockIdx.y * kAsyncHalfRows + in_tile;
  const int group = (int)blockIdx.x * 4 + lane_of() / 8;
  if (group >= p.groups) return;
  u8* const to =
      p.out + ((long long)blockIdx.y * p.groups + group) * kAsyncHalfRows * swizzled_half_bytes(Group);
  uint4 in[kPieces];
  const bool live = row < p.rows;
  const uint4* const from =
      (const uint4*)p.codes + ((long long)min_(row, p.rows - 1) * p.groups + group) * kPieces;
  FT_UNROLL for (int i = 0; i < kPieces; i++) in[i] = live ? from[i] : make_uint4(0, 0, 0, 0);
  FT_UNROLL for (int h = 0; h < kOfLane; h++) {
    const uint4 &a = in[h], &b = in[kOfLane + h], &c = in[2 * kOfLane + h], &d = in[3 * kOfLane + h];
    uint4* const part = (uint4*)to + h * 4 * kAsyncHalfRows + in_tile;
    part[0] = make_uint4(a.x, b.x, c.x, d.x);
    part[kAsyncHalfRows] = make_uint4(a.y, b.y, c.y, d.y);
    part[2 * kAsyncHalfRows] = make_uint4(a.z, b.z, c.z, d.z);
    part[3 * kAsyncHalfRows] = make_uint4(a.w, b.w, c.w, d.w);
  }
  const long long sums = ((long long)(row / 8) * p.groups + group) * kScaleFloats + row % 8 * 2 + 1;
  const int place = in_tile / 16 * 16 + in_tile % 8 / 2 * 4 + in_tile / 8 % 2 * 2 + in_tile % 2;
  ((float*)(to + kAsyncHalfRows * 2 * Group))[place] = live ? p.scales[sums] : 0.0f;
}

FT_KERNEL(swizzle_activations_half_64, SwizzleArgs, 256) {
  begin_kernel();
  swizzle_halves<64>(p);
}
FT_KERNEL(swizzle_activations_half_32, SwizzleArgs, 256) {
  begin_kernel();
  swizzle_halves<32>(p);
}

}  // namespace ft::cuda
