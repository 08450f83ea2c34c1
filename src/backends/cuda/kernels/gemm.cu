// The linear of many rows (prompts) for affine weights in groups of 64, 32 and 16: a block has 128 outputs
// and 64 or 128 rows and walks over all of K, group by group, through stages in shared memory. The bits equal
// linear_codes' (linear.cu): the same chains in eight slices, the slices added in order.
#include "backends/cuda/kernels/product.cuh"

namespace ft::cuda {

constexpr int kWarpTiles = 2;  // tiles of 16 outputs of a warp

/// One group of a block: it has 16 * Columns rows, and a warp has half of them.
template <int Bits, int Group, int Scales, int Columns>
struct GemmStage {
  static constexpr int kRecord = record_bytes(Bits, Group, Scales), kRows = 16 * Columns;
  static constexpr int kRowPieces = Group / 16;  // of 16 bytes
  static constexpr int kRecordPieces = kGemmTiles * kRecord / 16, kCodePieces = kRows * kRowPieces;
  u8 records[kGemmTiles][kRecord];
  u8 codes[kRows][Group];
  float scales[kRows / 8][kScaleFloats];
};

/// A thread's copies of each group: where its pieces of 16 bytes begin, and the next group to copy.
/// Tiles and rows beyond the last repeat the last ones; their sums are not used.
template <int Bits, int Group, int Scales, int Columns>
struct GemmCopies {
  using Stage = GemmStage<Bits, Group, Scales, Columns>;
  static constexpr int kRowPieces = Stage::kRowPieces;
  static constexpr int kRecords = (Stage::kRecordPieces + 255) / 256,
                       kCodes = (Stage::kCodePieces + 255) / 256;
  u32 records[kRecords], codes[kCodes], scales;  // bytes
  int group;
  RecordWalk walk;

  FT_DEVICE_MEMBER void begin(const LinearArgs& p, int tile0, int row0) {
    const int own = (int)threadIdx.x;
    FT_UNROLL for (int i = 0; i < kRecords; i++) {
      const int piece = own + 256 * i, of_tile = Stage::kRecord / 16;
      const int tile = min_(tile0 + piece / of_tile, p.tiles - 1);
      records[i] = (u32)tile * (u32)p.groups * Stage::kRecord + (u32)(piece % of_tile * 16);
    }
    FT_UNROLL for (int i = 0; i < kCodes; i++) {
      const int row = min_(row0 + own / kRowPieces + 256 / kRowPieces * i, p.rows - 1);
      codes[i] = (u32)row * (u32)p.groups * Group + (u32)(own % kRowPieces * 16);
    }
    const int block = min_(row0 / 8 + own / 4, (p.rows - 1) / 8);
    scales = ((u32)block * (u32)p.groups * kScaleFloats + (u32)(own % 4 * 4)) * 4;
    group = 0;
    walk.begin(p.groups);
  }
  FT_DEVICE_MEMBER void fill(const LinearArgs& p, Stage& stage) {
    const int own = (int)threadIdx.x;
    u8* to = (u8*)&stage + own * 16;
    const u8* from = p.records + (long long)walk.record * Stage::kRecord;
    FT_UNROLL for (int i = 0; i < kRecords; i++) {
      if (own + 256 * i < Stage::kRecordPieces) copy_async(to + 4096 * i, from + records[i]);
    }
    to += kGemmTiles * Stage::kRecord;
    FT_UNROLL for (int i = 0; i < kCodes; i++) {
      if (Stage::kCodePieces % 256 == 0 || own + 256 * i < Stage::kCodePieces)
        copy_async(to + 4096 * i, p.codes + (long long)group * Group + codes[i]);
    }
    to += Stage::kRows * Group;
    if (own < Stage::kRows / 2) copy_async(to, (const u8*)p.scales + (long long)group * 64 + scales);
    group++;
    walk.step();
  }
};

template <int Columns>
struct GemmSums {
  float of[kWarpTiles][Columns][4];
};

/// acc += one group. The integers are accumulated on top of 1.5 * 2^23, so they are the low bits of a float.
template <int Bits, int Group, int Scales, int Columns>
FT_DEVICE void add_stage(const GemmStage<Bits, Group, Scales, Columns>& stage, int first_tile,
                         int first_column, GemmSums<Columns>& acc) {
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  constexpr int kSteps = Group / 32;
  constexpr bool kShort = Group == kShortestGroup;
  u32 a[kWarpTiles][kShort ? 1 : kSteps][4];
  float scale[kWarpTiles][2], bias[kWarpTiles][2];
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
    const u8* record = stage.records[first_tile + m];
    if constexpr (kShort) {
      u32 half[2];
      load_shortest<Bits>(record, lane, half);
      a[m][0][0] = half[0], a[m][0][1] = half[1];
    } else if constexpr (kSteps == 1) {
      load_words<Bits, 1>(record, lane, a[m]);
    } else if constexpr (Bits == 4) {
      split_halves(*(const uint4*)(record + lane * 16), a[m][0], a[m][1]);
    } else {
      FT_UNROLL for (int j = 0; j < 2; j++) {
        const uint4 w = *(const uint4*)(record + j * 512 + lane * 16);
        a[m][j][0] = w.x, a[m][j][1] = w.y, a[m][j][2] = w.z, a[m][j][3] = w.w;
      }
    }
    scale_of(record, record_codes(Bits, Group), Scales, quad, scale[m][0], bias[m][0]);
    scale_of(record, record_codes(Bits, Group), Scales, quad + 8, scale[m][1], bias[m][1]);
  }
  constexpr int kMagic = 0x4b400000;
  FT_UNROLL for (int n = 0; n < Columns; n++) {
    const u8* const codes = &stage.codes[8 * (first_column + n) + quad][t * (Group / 4)];
    uint4 x;
    if constexpr (kSteps == 2) {
      x = *(const uint4*)codes;
    } else if constexpr (kShort) {
      x = make_uint4(*(const u32*)codes, 0, 0, 0);
    } else {
      const uint2 half = *(const uint2*)codes;
      x = make_uint4(half.x, half.y, 0, 0);
    }
    const float4 s = *(const float4*)&stage.scales[first_column + n][t * 4];
    FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
      int dot[4] = {kMagic, kMagic, kMagic, kMagic};
      if constexpr (kShort)
        mma_bytes_16(dot, a[m][0][0], a[m][0][1], x.x);
      else
        mma_bytes(dot, a[m][0][0], a[m][0][1], a[m][0][2], a[m][0][3], x.x, x.y);
      if constexpr (kSteps == 2) mma_bytes(dot, a[m][1][0], a[m][1][1], a[m][1][2], a[m][1][3], x.z, x.w);
      float* to = acc.of[m][n];
      FT_UNROLL for (int i = 0; i < 4; i++) {
        const float whole = float_of((u32)dot[i]) - 12582912.0f;
        to[i] = fma_(bias[m][i / 2], i % 2 == 0 ? s.y : s.w,
                     fma_(whole, scale[m][i / 2] * (i % 2 == 0 ? s.x : s.z), to[i]));
      }
    }
  }
}

template <int Columns>
FT_DEVICE void store_gemm(const LinearArgs& p, int tile0, int row0, const GemmSums<Columns>& acc,
                          const float4* totals) {
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
    FT_UNROLL for (int n = 0; n < Columns; n++) {
      const float4 four = totals[(m * Columns + n) * 256];
      const float total[4] = {four.x, four.y, four.z, four.w};
      FT_UNROLL for (int i = 0; i < 4; i++) {
        const int row = row0 + 8 * n + 2 * t + i % 2;
        const int output = (tile0 + m) * kTileOutputs + quad + i / 2 * 8;
        if (row >= p.rows || output >= p.outputs) continue;
        float value = total[i] + acc.of[m][n][i];
        if (p.residual.data != nullptr)
          value = p.residual.data[(long long)row * p.residual.stride + output] + value;
        p.out.data[(long long)row * p.out.stride + output] = value;
      }
    }
  }
}

/// Adds a slice to the earlier ones, which are in shared memory: they are read eight times in all.
template <int Columns>
FT_DEVICE void add_slice(int slice, GemmSums<Columns>& acc, float4* totals) {
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
    FT_UNROLL for (int n = 0; n < Columns; n++) {
      float(&sum)[4] = acc.of[m][n];
      float4& total = totals[(m * Columns + n) * 256];
      const float4 old = total;
      total = slice == 0 ? make_float4(sum[0], sum[1], sum[2], sum[3])
                         : make_float4(old.x + sum[0], old.y + sum[1], old.z + sum[2], old.w + sum[3]);
      sum[0] = sum[1] = sum[2] = sum[3] = 0;
    }
  }
}

// x: 16 * Columns rows; y: 128 outputs. Warp: (pair of tiles, half of the rows). Shared memory: sums of the
// earlier slices, then the stages.
template <int Bits, int Group, int Scales, int Columns>
FT_DEVICE void gemm(const GemmArgs& args, u8* memory) {
  const LinearArgs& p = args.linear;
  using Stage = GemmStage<Bits, Group, Scales, Columns>;
  static_assert((int)sizeof(Stage) == gemm_stage_bytes(Bits, Group, Scales, Stage::kRows));
  float4* totals = (float4*)memory + threadIdx.x;
  Stage* stages = (Stage*)(memory + gemm_sum_bytes(Stage::kRows));
  const int tile0 = (int)blockIdx.y * kGemmTiles, row0 = (int)blockIdx.x * Stage::kRows;
  const int own_tile = warp_of() % 4 * kWarpTiles, own_column = warp_of() / 4 * Columns;
  GemmCopies<Bits, Group, Scales, Columns> copies;
  copies.begin(p, tile0, row0);
  for (int i = 0; i < args.stages - 1; i++) {
    if (i < p.groups) copies.fill(p, stages[i]);
    end_copies();
  }
  GemmSums<Columns> acc;
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) FT_UNROLL for (int n = 0; n < Columns; n++)
      FT_UNROLL for (int i = 0; i < 4; i++) acc.of[m][n][i] = 0;
  int g = 0, now = 0, next = args.stages - 1;
  FT_LOOP for (int slice = 0; slice < kSplitK; slice++) {
    FT_LOOP for (const int end = p.groups * (slice + 1) / kSplitK; g < end; g++) {
      if (args.stages == 4)
        copies_left<2>();
      else if (args.stages == 3)
        copies_left<1>();
      else
        copies_left<0>();
      sync_block();
      if (copies.group < p.groups) copies.fill(p, stages[next]);
      end_copies();
      add_stage(stages[now], own_tile, own_column, acc);
      if (++now == args.stages) now = 0;
      if (++next == args.stages) next = 0;
    }
    if (slice < kSplitK - 1) add_slice(slice, acc, totals);
  }
  store_gemm(p, tile0 + own_tile, row0 + 8 * own_column, acc, totals);
}

}  // namespace ft::cuda

#define FT_GEMM(Bits, Scales, Columns, Blocks)                                            \
  FT_KERNEL_SHARING(gemm_##Bits##_##Scales##_##Columns, GemmArgs, kGemmThreads, Blocks) { \
    FT_DYNAMIC(memory);                                                                   \
    begin_kernel();                                                                       \
    gemm<Bits, 64, Scales, Columns>(p, memory);                                           \
  }
#define FT_GEMM_KIND(Bits, Group, Scales)                                              \
  FT_KERNEL_SHARING(gemm_##Bits##_##Group##_##Scales##_4, GemmArgs, kGemmThreads, 2) { \
    FT_DYNAMIC(memory);                                                                \
    begin_kernel();                                                                    \
    gemm<Bits, Group, Scales, 4>(p, memory);                                           \
  }

namespace ft::cuda {

FT_GEMM(4, 0, 4, 2)
FT_GEMM(4, 0, 8, 1)
FT_GEMM(4, 1, 4, 2)
FT_GEMM(8, 1, 4, 2)
FT_GEMM_KIND(4, 32, 0)
FT_GEMM_KIND(4, 32, 1)
FT_GEMM_KIND(4, 32, 2)
FT_GEMM_KIND(8, 32, 0)
FT_GEMM_KIND(8, 32, 1)
FT_GEMM_KIND(8, 32, 2)
FT_GEMM_KIND(4, 16, 1)
FT_GEMM_KIND(8, 16, 1)
FT_GEMM_KIND(4, 64, 2)
FT_GEMM_KIND(8, 64, 0)
FT_GEMM_KIND(8, 64, 2)

// ---- rows for the asynchronous matrix instruction ----

// [block of rows][group]: codes as [4 parts][rows][16 bytes], then scales as they are, [rows / 8][16]. Part c
// of a row has the words c, c + 4, c + 8, c + 12 of its group: lane t of a packed record multiplies words 4 t
// ... + 3 (layout.cuh). Rows beyond the last are zeros. x: four groups; y: 64 rows; thread: a row and group.
FT_KERNEL(swizzle_activations, SwizzleArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.y * 64 + warp_of() * 8 + lane_of() % 8,
            group = (int)blockIdx.x * 4 + lane_of() / 8;
  if (group >= p.groups || row / p.tile_rows * p.tile_rows >= p.rows) return;
  const int in_tile = row % p.tile_rows;
  const long long stage = p.tile_rows * swizzled_bytes(kStreamedGroup);
  u8* to = p.out + ((long long)(row / p.tile_rows) * p.groups + group) * stage;
  uint4 in[4], out[4];
  const bool live = row < p.rows;
  FT_UNROLL for (int t = 0; t < 4; t++) {
    in[t] = live ? *(const uint4*)(p.codes + ((long long)row * p.groups + group) * 64 + 16 * t)
                 : make_uint4(0, 0, 0, 0);
  }
  out[0] = make_uint4(in[0].x, in[1].x, in[2].x, in[3].x);
  out[1] = make_uint4(in[0].y, in[1].y, in[2].y, in[3].y);
  out[2] = make_uint4(in[0].z, in[1].z, in[2].z, in[3].z);
  out[3] = make_uint4(in[0].w, in[1].w, in[2].w, in[3].w);
  FT_UNROLL for (int c = 0; c < 4; c++) * (uint4*)(to + (c * p.tile_rows + in_tile) * 16) = out[c];
  float2* scales = (float2*)(to + p.tile_rows * 64 + in_tile / 8 * 64) + row % 8;
  const long long from = ((long long)(row / 8) * p.groups + group) * kScaleFloats;
  *scales = row / 8 * 8 < p.rows ? *((const float2*)(p.scales + from) + row % 8) : make_float2(0, 0);
}

}  // namespace ft::cuda
