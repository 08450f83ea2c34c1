// The linear of many rows (prompts) for affine weights in groups of 64: a block has 128 outputs and 64 rows
// and goes over all of K, group by group, through stages in shared memory. The bits are linear_codes' own
// (linear.cu): the same chains in eight slices, the slices added in order.
#include "backends/cuda/kernels/layout.cuh"

namespace ft::cuda {

constexpr int kGemmTiles = 8, kGemmRows = 64;    // of a block: tiles of 16 outputs, rows
constexpr int kWarpTiles = 2, kWarpColumns = 4;  // of a warp: 32 outputs, 4 x 8 rows

template <int Bits, int Wide>
struct GemmStage {
  static constexpr int kRecord = 128 * Bits + (Wide ? 128 : 64);
  static constexpr int kStages = Bits == 4 ? 4 : 3;
  u8 records[kGemmTiles][kRecord];
  u8 codes[kGemmRows][64];
  float scales[kGemmRows / 8][kScaleFloats];
};

/// Begins the copies of one group. Tiles and rows beyond the last are the last ones: nobody reads their sums.
template <int Bits, int Wide>
FT_DEVICE void fill_stage(const LinearArgs& p, int tile0, int row0, int group, GemmStage<Bits, Wide>& stage) {
  constexpr int kRecord = GemmStage<Bits, Wide>::kRecord, kPieces = kRecord / 16;
  const u8* records = p.records + record_at(0, group, p.groups) * kRecord;  // tiles are p.groups apart
  FT_UNROLL for (int first = 0; first < kGemmTiles * kPieces; first += 256) {
    const int i = first + (int)threadIdx.x, tile = min_(tile0 + i / kPieces, p.tiles - 1);
    if (i < kGemmTiles * kPieces)
      copy_async(&stage.records[i / kPieces][i % kPieces * 16],
                 records + (long long)tile * p.groups * kRecord + i % kPieces * 16);
  }
  const int row = (int)threadIdx.x / 4, piece = (int)threadIdx.x % 4;
  copy_async(&stage.codes[row][piece * 16],
             p.codes + ((long long)min_(row0 + row, p.rows - 1) * p.groups + group) * 64 + piece * 16);
  if (threadIdx.x < kGemmRows / 8 * 4) {
    const int block = min_((row0 / 8) + row, (p.rows - 1) / 8);
    copy_async(&stage.scales[row][piece * 4],
               p.scales + ((long long)block * p.groups + group) * kScaleFloats + piece * 4);
  }
}

struct GemmSums {
  float of[kWarpTiles][kWarpColumns][4];
};

/// acc += one group. The integers are made on top of 1.5 * 2^23, whose low bits they then are as a float.
template <int Bits, int Wide>
FT_DEVICE void add_stage(const GemmStage<Bits, Wide>& stage, int first_tile, int first_column,
                         GemmSums& acc) {
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  u32 a[kWarpTiles][2][4];
  float scale[kWarpTiles][2], bias[kWarpTiles][2];
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
    const u8* record = stage.records[first_tile + m];
    if (Bits == 4) {
      const uint4 w = *(const uint4*)(record + lane * 16);
      const u32 mask = 0x0f0f0f0fu;
      a[m][0][0] = w.x & mask, a[m][0][1] = w.y & mask, a[m][0][2] = w.x >> 4 & mask;
      a[m][0][3] = w.y >> 4 & mask;
      a[m][1][0] = w.z & mask, a[m][1][1] = w.w & mask, a[m][1][2] = w.z >> 4 & mask;
      a[m][1][3] = w.w >> 4 & mask;
    } else {
      FT_UNROLL for (int j = 0; j < 2; j++) {
        const uint4 w = *(const uint4*)(record + j * 512 + lane * 16);
        a[m][j][0] = w.x, a[m][j][1] = w.y, a[m][j][2] = w.z, a[m][j][3] = w.w;
      }
    }
    scale_of(record, 128 * Bits, Wide, quad, scale[m][0], bias[m][0]);
    scale_of(record, 128 * Bits, Wide, quad + 8, scale[m][1], bias[m][1]);
  }
  constexpr int kMagic = 0x4b400000;
  FT_UNROLL for (int n = 0; n < kWarpColumns; n++) {
    const uint4 x = *(const uint4*)&stage.codes[8 * (first_column + n) + quad][t * 16];
    const float4 s = *(const float4*)&stage.scales[first_column + n][t * 4];
    FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
      int dot[4] = {kMagic, kMagic, kMagic, kMagic};
      mma_bytes(dot, a[m][0][0], a[m][0][1], a[m][0][2], a[m][0][3], x.x, x.y);
      mma_bytes(dot, a[m][1][0], a[m][1][1], a[m][1][2], a[m][1][3], x.z, x.w);
      float* to = acc.of[m][n];
      FT_UNROLL for (int i = 0; i < 4; i++) {
        const float whole = float_of((u32)dot[i]) - 12582912.0f;
        to[i] = fma_(bias[m][i / 2], i % 2 == 0 ? s.z : s.w,
                     fma_(whole, scale[m][i / 2] * (i % 2 == 0 ? s.x : s.y), to[i]));
      }
    }
  }
}

FT_DEVICE void store_gemm(const LinearArgs& p, int tile0, int row0, const GemmSums& total) {
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3;
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) {
    FT_UNROLL for (int n = 0; n < kWarpColumns; n++) {
      FT_UNROLL for (int i = 0; i < 4; i++) {
        const int row = row0 + 8 * n + 2 * t + i % 2;
        const int output = (tile0 + m) * kTileOutputs + quad + i / 2 * 8;
        if (row >= p.rows || output >= p.outputs) continue;
        float value = total.of[m][n][i];
        if (p.residual.data != nullptr)
          value = p.residual.data[(long long)row * p.residual.stride + output] + value;
        p.out.data[(long long)row * p.out.stride + output] = value;
      }
    }
  }
}

// x: 64 rows; y: 128 outputs. Warp: (pair of tiles, half of the rows).
template <int Bits, int Wide>
FT_DEVICE void gemm(const LinearArgs& p, GemmStage<Bits, Wide>* stages) {
  constexpr int kStages = GemmStage<Bits, Wide>::kStages;
  const int tile0 = (int)blockIdx.y * kGemmTiles, row0 = (int)blockIdx.x * kGemmRows;
  const int own_tile = warp_of() % 4 * kWarpTiles, own_column = warp_of() / 4 * kWarpColumns;
  FT_UNROLL for (int g = 0; g < kStages - 1; g++) {
    if (g < p.groups) fill_stage(p, tile0, row0, g, stages[g]);
    end_copies();
  }
  GemmSums total, acc;
  FT_UNROLL for (int m = 0; m < kWarpTiles; m++) FT_UNROLL for (int n = 0; n < kWarpColumns; n++)
      FT_UNROLL for (int i = 0; i < 4; i++) total.of[m][n][i] = acc.of[m][n][i] = 0;
  int g = 0;
  for (int slice = 0; slice < kSlices; slice++) {
    for (const int end = p.groups * (slice + 1) / kSlices; g < end; g++) {
      copies_left<kStages - 2>();
      sync_block();
      const int next = g + kStages - 1;
      if (next < p.groups) fill_stage(p, tile0, row0, next, stages[next % kStages]);
      end_copies();
      add_stage(stages[g % kStages], own_tile, own_column, acc);
    }
    FT_UNROLL for (int m = 0; m < kWarpTiles; m++) FT_UNROLL for (int n = 0; n < kWarpColumns; n++)
        FT_UNROLL for (int i = 0; i < 4; i++) {
      float& sum = acc.of[m][n][i];
      total.of[m][n][i] = slice == 0 ? sum : total.of[m][n][i] + sum;
      sum = 0;
    }
  }
  store_gemm(p, tile0 + own_tile, row0 + 8 * own_column, total);
}

}  // namespace ft::cuda

#define FT_GEMM(Bits, Wide)                                                            \
  FT_KERNEL_SHARING(gemm_##Bits##_##Wide, LinearArgs, 256, 2) {                                   \
    FT_SHARED __attribute__((aligned(16))) GemmStage<Bits, Wide> stages[GemmStage<Bits, Wide>::kStages]; \
    begin_kernel();                                                                    \
    gemm<Bits, Wide>(p, stages);                                                       \
  }

namespace ft::cuda {

FT_GEMM(4, 0)
FT_GEMM(4, 1)
FT_GEMM(8, 0)
FT_GEMM(8, 1)

}  // namespace ft::cuda
