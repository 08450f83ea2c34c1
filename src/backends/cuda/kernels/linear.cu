// Linears of packed weights, affine and e2m1, and 8-bit codes (exact integer sums), and of plain weights and
// float rows; the kernels that pack weights and read rows of them. The order of additions of a product is one
// for each K.
#include "backends/cuda/kernels/linear_tile.cuh"

#define FT_LINEAR(Bits, Group, Scales, Columns) \
  FT_LINEAR_OF(linear_##Bits##_##Group##_##Scales##_##Columns, Columns, AffineRecord<Bits, Group, Scales>)
#define FT_LINEARS(Bits, Group) \
  FT_LINEAR(Bits, Group, 0, 1)  \
  FT_LINEAR(Bits, Group, 0, 4) FT_LINEAR(Bits, Group, 1, 1) FT_LINEAR(Bits, Group, 1, 4)

namespace ft::cuda {

FT_LINEARS(4, 32)
FT_LINEARS(4, 64)
FT_LINEARS(4, 128)
FT_LINEARS(8, 32)
FT_LINEARS(8, 64)
FT_LINEARS(8, 128)
FT_LINEAR(4, 32, 2, 1)
FT_LINEAR(4, 32, 2, 4)
FT_LINEAR(8, 32, 2, 1)
FT_LINEAR(8, 32, 2, 4)
FT_LINEAR(4, 16, 1, 1)
FT_LINEAR(4, 16, 1, 4)
FT_LINEAR(8, 16, 1, 1)
FT_LINEAR(8, 16, 1, 4)
FT_LINEAR(4, 64, 2, 1)
FT_LINEAR(4, 64, 2, 4)
FT_LINEAR(8, 64, 2, 1)
FT_LINEAR(8, 64, 2, 4)
FT_LINEAR_OF(linear_e2m1_1, 1, SmallFloatRecord)
FT_LINEAR_OF(linear_e2m1_4, 4, SmallFloatRecord)

// ---- plain: a warp has one output and up to four rows; lane i the inputs 8 i ... 8 i + 7 of each 256 ----

/// Eight neighbours of a row of `count` numbers; zeros beyond the last.
FT_DEVICE void load8(const float* row, int at, int count, float (&v)[8]) {
  if (at + 8 <= count) {
    const float4 a = *(const float4*)(row + at), b = *(const float4*)(row + at + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    return;
  }
  FT_UNROLL for (int j = 0; j < 8; j++) v[j] = at + j < count ? row[at + j] : 0.0f;
}

/// Weights of bfloat16 are loaded ahead, the first ones before the rows are there.
template <int Rows>
FT_DEVICE void multiply_plain(const PlainLinearArgs& p) {
  constexpr int kAhead = Rows == 1 ? 4 : 2, kStep = 256;
  const int place = (int)blockIdx.x * p.block_outputs + warp_of(), row0 = (int)blockIdx.y * Rows;
  const int lane = lane_of(), second = place >= p.outputs ? 1 : 0;
  const int output = place - (second ? p.outputs : 0);
  const void* const weights = second ? p.also.weights : p.weights;
  const View out = second ? p.also.out : p.out;
  const long long line = (long long)output * p.padded;
  release_next();
  if (second && output >= p.also.outputs) return;
  uint4 ahead[kAhead];
  const auto load = [&](int k) {
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      if (p.wide == 0 && k + i * kStep < p.k)
        ahead[i] = *(const uint4*)((const u16*)weights + line + k + i * kStep);
    }
  };
  load(lane * 8);
  wait_for_rows();
  const float* x[Rows];
  float sum[Rows];
  FT_UNROLL for (int r = 0; r < Rows; r++) {
    const int row = min_(row0 + r, p.rows - 1);
    x[r] = p.in.data + (long long)(p.row_list == nullptr ? row : p.row_list[row]) * p.in.stride;
    sum[r] = 0;
  }
  FT_LOOP for (int k = lane * 8; k < p.k; k += kAhead * kStep) {
    float v[kAhead][Rows][8];  // all loads first
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      FT_UNROLL for (int r = 0; r < Rows; r++) load8(x[r], min_(k + i * kStep, p.k), p.k, v[i][r]);
    }
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      const int at = k + i * kStep;
      if (at >= p.k) continue;
      float w[8];
      if (p.wide)
        load_weights(weights, 1, line + at, w);
      else
        plain_weights(ahead[i], w);
      FT_UNROLL for (int r = 0; r < Rows; r++) {
        FT_UNROLL for (int j = 0; j < 8; j++) sum[r] = fma_(w[j], v[i][r][j], sum[r]);
      }
    }
    load(k + kAhead * kStep);
  }
  FT_UNROLL for (int r = 0; r < Rows; r++) {
    float total = warp_sum(sum[r]);
    const int row = row0 + r;
    if (lane != 0 || row >= p.rows) continue;
    if (p.bias != nullptr && !second) total = total + p.bias[output];
    if (p.residual.data != nullptr)
      total = p.residual.data[(long long)row * p.residual.stride + output] + total;
    out.data[(long long)row * out.stride + output] = total;
  }
}

/// Weights of bfloat16 and several neighbouring outputs a warp, so that a row is loaded once for all of them.
/// The bits equal multiply_plain's.
template <int Rows, int Outputs, int Ahead>
FT_DEVICE void multiply_outputs(const PlainLinearArgs& p) {
  constexpr int kStep = 256;
  const int first = ((int)blockIdx.x * 8 + warp_of()) * Outputs, row0 = (int)blockIdx.y * Rows;
  const int lane = lane_of();
  release_next();
  if (first >= p.outputs) return;
  const u16* lines[Outputs];
  FT_UNROLL for (int i = 0; i < Outputs; i++) lines[i] =
      (const u16*)p.weights + (long long)min_(first + i, p.outputs - 1) * p.padded;
  uint4 ahead[Ahead][Outputs];  // steps on their way
  const auto load = [&](int k, uint4(&to)[Outputs]) {
    if (k >= p.k) return;
    FT_UNROLL for (int i = 0; i < Outputs; i++) to[i] = *(const uint4*)(lines[i] + k);
  };
  FT_UNROLL for (int n = 0; n < Ahead; n++) load(lane * 8 + n * kStep, ahead[n]);
  wait_for_rows();
  const float* x[Rows];
  float sum[Outputs][Rows];
  FT_UNROLL for (int r = 0; r < Rows; r++) {
    const int row = min_(row0 + r, p.rows - 1);
    x[r] = p.in.data + (long long)(p.row_list == nullptr ? row : p.row_list[row]) * p.in.stride;
    FT_UNROLL for (int i = 0; i < Outputs; i++) sum[i][r] = 0;
  }
  FT_LOOP for (int begin = lane * 8; begin < p.k; begin += Ahead * kStep) {
    FT_UNROLL for (int n = 0; n < Ahead; n++) {
      const int k = begin + n * kStep;
      if (k >= p.k) continue;
      uint4 now[Outputs];
      FT_UNROLL for (int i = 0; i < Outputs; i++) now[i] = ahead[n][i];
      load(k + Ahead * kStep, ahead[n]);
      float v[Rows][8];
      FT_UNROLL for (int r = 0; r < Rows; r++) load8(x[r], k, p.k, v[r]);
      FT_UNROLL for (int i = 0; i < Outputs; i++) {
        float w[8];
        plain_weights(now[i], w);
        FT_UNROLL for (int r = 0; r < Rows; r++) {
          FT_UNROLL for (int j = 0; j < 8; j++) sum[i][r] = fma_(w[j], v[r][j], sum[i][r]);
        }
      }
    }
  }
  FT_UNROLL for (int i = 0; i < Outputs; i++) {
    FT_UNROLL for (int r = 0; r < Rows; r++) {
      float total = warp_sum(sum[i][r]);
      const int row = row0 + r, output = first + i;
      if (lane != 0 || row >= p.rows || output >= p.outputs) continue;
      if (p.bias != nullptr) total = total + p.bias[output];
      if (p.residual.data != nullptr)
        total = p.residual.data[(long long)row * p.residual.stride + output] + total;
      p.out.data[(long long)row * p.out.stride + output] = total;
    }
  }
}

FT_KERNEL(linear_plain_1, PlainLinearArgs, 256) { multiply_plain<1>(p); }
FT_KERNEL(linear_plain_4, PlainLinearArgs, 256) { multiply_plain<4>(p); }
FT_KERNEL(linear_plain_1x2, PlainLinearArgs, 256) { multiply_outputs<1, 2, 8>(p); }
FT_KERNEL(linear_plain_1x4, PlainLinearArgs, 256) { multiply_outputs<1, 4, 4>(p); }
FT_KERNEL(linear_plain_4x2, PlainLinearArgs, 256) { multiply_outputs<4, 2, 1>(p); }
FT_KERNEL(linear_plain_4x4, PlainLinearArgs, 256) { multiply_outputs<4, 4, 1>(p); }
FT_KERNEL(linear_plain_8x2, PlainLinearArgs, 256) { multiply_outputs<8, 2, 1>(p); }
FT_KERNEL(linear_plain_8x4, PlainLinearArgs, 256) { multiply_outputs<8, 4, 1>(p); }

// ---- packing ----

FT_DEVICE u32 raw_code(const PackArgs& p, int output, int input) {
  if (output >= p.rows) return 0;
  const u8* row = p.raw + (long long)output * p.row_bytes;
  const long long bit = (long long)input * p.raw_bits;
  const u32 low = row[bit / 8], high = bit % 8 + p.raw_bits > 8 ? row[bit / 8 + 1] : 0;
  return (low | high << 8) >> (bit % 8) & ((1u << p.raw_bits) - 1);
}

FT_DEVICE float raw_scale(const PackArgs& p, const u8* from, int output, int group) {
  if (output >= p.rows) return 0;
  const u8* at = from + ((long long)output * (p.cols / p.group) + group) * p.scale_bytes;
  if (p.scale_bytes == 4) return float_of((u32)at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24);
  const u16 bits = (u16)(at[0] | at[1] << 8);
  return p.scale_half ? half_to_float(bits) : float_of((u32)bits << 16);
}

/// A lane's codes of a group of 16.
FT_DEVICE void pack_shortest(const PackArgs& p, int tile, int group, u8* record) {
  const int lane = lane_of(), words = p.bits == 4 ? 1 : 2, output = tile * kTileOutputs + (lane >> 2);
  const int input = group * kShortestGroup + (lane & 3) * 4;
  for (int w = 0; w < words; w++) {
    u32 word = 0;
    for (int b = 0; b < 4; b++) {
      word |= raw_code(p, output + 8 * w, input + b) << (8 * b);
      if (p.bits == 4) word |= raw_code(p, output + 8, input + b) << (8 * b + 4);
    }
    ((u32*)record)[lane * words + w] = word;
  }
}

// One warp a record.
FT_KERNEL(pack, PackArgs, 256) {
  const int groups = p.cols / p.group, item = (int)blockIdx.x * 8 + warp_of(), lane = lane_of();
  if (item >= p.tiles * groups) return;
  const int tile = item / groups, g = item % groups, steps = p.group / 32, t = lane & 3, quad = lane >> 2;
  u8* record =
      p.records + record_at(p.first_tile + tile, g, groups) * record_bytes(p.bits, p.group, p.scale_type);
  if (p.group == kShortestGroup) pack_shortest(p, tile, g, record);
  const int words = p.bits == 4 ? 2 : 4;
  for (int j = 0; j < steps; j++) {
    for (int w = 0; w < words; w++) {
      const int output = tile * kTileOutputs + quad + w % 2 * 8;
      const int input = g * p.group + t * 8 * steps + (p.bits == 4 ? low_input(j, steps) : 8 * j + w / 2 * 4);
      u32 word = 0;
      for (int b = 0; b < 4; b++) {
        word |= raw_code(p, output, input + b) << (8 * b);
        if (p.bits == 4) word |= raw_code(p, output, input + high_distance(steps) + b) << (8 * b + 4);
      }
      *(u32*)(record + word_at(p.bits, lane, j, w, steps)) = word;
    }
  }
  if (lane >= kTileOutputs) return;
  const int output = tile * kTileOutputs + lane, place = lane % 8 * 2 + lane / 8;
  const float scale = raw_scale(p, p.scales, output, g), bias = raw_scale(p, p.biases, output, g);
  u8* at = record + record_codes(p.bits, p.group);
  if (p.scale_type == kFloatScales) {
    ((float*)at)[place * 2] = scale;
    ((float*)at)[place * 2 + 1] = bias;
  } else if (p.scale_type == kHalfScales) {
    ((u32*)at)[place] = (u32)float_to_half(scale) | (u32)float_to_half(bias) << 16;
  } else {
    ((u32*)at)[place] = bits_of(scale) >> 16 | (bits_of(bias) & 0xffff0000u);
  }
}

// e2m1 codes as they are. One warp a record.
FT_KERNEL(pack_small_floats, PackArgs, 256) {
  const int groups = p.cols / kSmallFloatGroup, item = (int)blockIdx.x * 8 + warp_of(), lane = lane_of();
  if (item >= p.tiles * groups) return;
  const int tile = item / groups, g = item % groups, t = lane & 3, quad = lane >> 2;
  u8* const record = (u8*)small_float_record(p.records, p.first_tile + tile, g, groups);
  for (int i = 0; i < 2; i++) {
    const int output = tile * kTileOutputs + quad + 8 * i;
    const bool there = output < p.rows;
    const long long at = (long long)output * p.row_bytes + g * (kSmallFloatGroup / 2) + t * 4;
    ((u32*)record)[lane * 2 + i] = there ? *(const u32*)(p.raw + at) : 0;
    if (t == 0)
      record[kSmallFloatCodes + quad * 2 + i] = there ? p.scales[(long long)output * groups + g] : 0;
  }
}

// x: 256 columns; y: row. value = code * scale + bias, two roundings (format/affine.h).
FT_KERNEL(embed, EmbedArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  int token = p.step.tokens[row];
  if (token < 0) token = p.step.round[-1 - token];
  const int place = p.given == nullptr ? -1 : p.step.embedding_places[row];
  float value = 0;
  if (place >= 0) {
    value = p.given[(long long)place * p.out.width + i];
  } else if (p.small_floats) {
    const u8* record = small_float_record(p.records, token / kTileOutputs, i / kSmallFloatGroup, p.groups);
    value = small_float_of(record, token % kTileOutputs, i % kSmallFloatGroup);
  } else if (p.records != nullptr) {
    const u8* record = p.records + record_at(token / kTileOutputs, i / p.group, p.groups) *
                                       record_bytes(p.bits, p.group, p.scale_type);
    float scale = 0, bias = 0;
    scale_of(record, record_codes(p.bits, p.group), p.scale_type, token % kTileOutputs, scale, bias);
    value = (float)code_of(record, p.bits, p.group, token % kTileOutputs, i % p.group) * scale + bias;
  } else if (p.plain_wide) {
    value = ((const float*)p.plain)[(long long)token * p.plain_stride + i];
  } else {
    value = float_of((u32)((const u16*)p.plain)[(long long)token * p.plain_stride + i] << 16);
  }
  p.out.data[(long long)row * p.out.stride + i] = value;
}

}  // namespace ft::cuda
