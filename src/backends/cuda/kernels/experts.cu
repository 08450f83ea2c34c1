// A mixture of experts: routes, and products of rows with the experts that they go to. A step's (row, expert)
// pairs are sorted into tiles of one expert; a block multiplies one with a tile of the expert's matrix. Which
// pairs share a tile changes no bits: the columns of the matrix instruction are independent.
#include "backends/cuda/kernels/expert_tile.cuh"
#include "backends/cuda/kernels/quantise.cuh"

namespace ft::cuda {

constexpr int kRouteThreads = 256;

/// Greater for higher scores, then for lower indices; NaN below all. Never 0.
FT_DEVICE u64 rank_of(float score, int index) {
  const u32 bits = bits_of(score + 0.0f);  // -0 as 0
  const u32 order = score != score ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return (u64)order << 32 | (u32)~index;
}

/// Over a block of 256 threads, the same in each of them.
FT_DEVICE u64 highest_of_block(u64 own) {
  FT_SHARED u64 ranks[kRouteThreads / 32];
  for (int distance = 16; distance > 0; distance >>= 1) {
    const u32 low = (u32)shuffle_xor((int)(u32)own, distance);
    const u32 high = (u32)shuffle_xor((int)(u32)(own >> 32), distance);
    const u64 other = (u64)high << 32 | low;
    own = other > own ? other : own;
  }
  sync_block();
  if (lane_of() == 0) ranks[warp_of()] = own;
  sync_block();
  for (int i = 0; i < kRouteThreads / 32; i++) own = ranks[i] > own ? ranks[i] : own;
  return own;
}

/// The sum of the exponentials of a row, in one order for each number of scores.
FT_DEVICE float mass_of_block(const float* scores, int count, float highest) {
  FT_SHARED float sums[kRouteThreads / 32];
  float own = 0;
  for (int i = (int)threadIdx.x; i < count; i += kRouteThreads) own = own + exp_(scores[i] - highest);
  own = warp_sum(own);
  if (lane_of() == 0) sums[warp_of()] = own;
  sync_block();
  float total = 0;
  for (int i = 0; i < kRouteThreads / 32; i++) total = total + sums[i];
  return total;
}

/// The number by which a row chooses its experts.
FT_DEVICE float merit_of(const RouteArgs& p, const float* scores, int index) {
  const float score = scores[index];
  if (!p.by_sigmoid || score != score) return score;
  return p.bias == nullptr ? sigmoid(score) : sigmoid(score) + p.bias[index];
}

// One block a row: the best merit below the last one, `chosen` times.
FT_KERNEL(route, RouteArgs, 256) {
  FT_SHARED int indices[kMaxChosen];
  begin_kernel();
  const int row = (int)blockIdx.x, own = (int)threadIdx.x;
  const float* scores = p.scores.data + (long long)row * p.scores.stride;
  float* out = p.out.data + (long long)row * p.out.stride;
  u64 last = ~0ull;
  for (int n = 0; n < p.chosen; n++) {
    u64 best = 0;
    for (int i = own; i < p.scores.width; i += kRouteThreads) {
      const u64 rank = rank_of(merit_of(p, scores, i), i);
      if (rank < last && rank > best) best = rank;
    }
    last = highest_of_block(best);
    if (own == 0) indices[n] = (int)~(u32)last;
  }
  sync_block();
  const float highest = scores[indices[0]];
  float mass = 0;
  if (p.by_sigmoid) {
    mass = kMinRouterMass;
    for (int n = 0; n < p.chosen; n++) mass = mass + sigmoid(scores[indices[n]]);
    mass = p.renormalised ? mass : 1.0f;
  } else if (p.renormalised) {
    for (int n = 0; n < p.chosen; n++) mass = mass + exp_(scores[indices[n]] - highest);
  } else {
    mass = mass_of_block(scores, p.scores.width, highest);
  }
  if (own >= p.chosen) return;
  const int index = indices[own];
  const float share = p.by_sigmoid ? sigmoid(scores[index]) : exp_(scores[index] - highest);
  const float weight = p.scale == nullptr ? share / mass : share / mass * p.scale[index];
  out[own] = (float)index;
  out[p.chosen + own] = weight * p.factor;
}

FT_DEVICE int expert_of(const ExpertTilesArgs& p, int pair) {
  return (int)p.routes.data[(long long)(pair / p.chosen) * p.routes.stride + pair % p.chosen];
}

// One block: counts the pairs of each expert, gives each its tiles, fills them.
FT_KERNEL(tile_pairs, ExpertTilesArgs, 256) {
  FT_SHARED int sums[256];
  begin_kernel();
  const int own = (int)threadIdx.x, pairs = p.rows * p.chosen;
  for (int i = own; i < p.experts; i += 256) p.sizes[i] = 0;
  for (int i = own; i < p.to.count; i += 256) p.to.experts[i] = -1;
  for (int i = own; i < p.to.count * kExpertTileRows; i += 256) p.to.pairs[i] = -1;
  sync_block();
  for (int i = own; i < pairs; i += 256) atomic_add(&p.sizes[expert_of(p, i)], 1);
  sync_block();
  const int each = (p.experts + 255) / 256;
  const int first = min_(own * each, p.experts), end = min_(first + each, p.experts);
  int expert_tiles = 0;
  for (int e = first; e < end; e++) expert_tiles += (p.sizes[e] + kExpertTileRows - 1) / kExpertTileRows;
  sums[own] = expert_tiles;
  sync_block();
  int at = 0;
  for (int i = 0; i < own; i++) at += sums[i];
  for (int e = first; e < end; e++) {
    const int count = (p.sizes[e] + kExpertTileRows - 1) / kExpertTileRows;
    for (int i = 0; i < count; i++) p.to.experts[at + i] = e;
    p.firsts[e] = at;
    p.sizes[e] = 0;
    at += count;
  }
  sync_block();
  for (int i = own; i < pairs; i += 256) {
    const int e = expert_of(p, i), place = atomic_add(&p.sizes[e], 1);
    p.to.pairs[p.firsts[e] * kExpertTileRows + place] = i;
  }
}

}  // namespace ft::cuda

#define FT_EXPERT(Bits, Group, Scales) \
  FT_EXPERT_OF(expert_##Bits##_##Group##_##Scales, AffineRecord<Bits, Group, Scales>)
#define FT_EXPERTS(Bits, Group) FT_EXPERT(Bits, Group, 0) FT_EXPERT(Bits, Group, 1)

namespace ft::cuda {

FT_EXPERTS(4, 32)
FT_EXPERTS(4, 64)
FT_EXPERTS(4, 128)
FT_EXPERTS(8, 32)
FT_EXPERTS(8, 64)
FT_EXPERTS(8, 128)
FT_EXPERT(4, 32, 2)
FT_EXPERT(8, 32, 2)
FT_EXPERT(4, 16, 1)
FT_EXPERT(8, 16, 1)
FT_EXPERT(4, 64, 2)
FT_EXPERT(8, 64, 2)
FT_EXPERT_OF(expert_e2m1, SmallFloatRecord)

// Plain weights: a warp has one output; lane i the inputs 8 i ... 8 i + 7 of each 256. x: eight outputs; y:
// bundle.
FT_KERNEL(expert_plain, ExpertArgs, 256) {
  begin_kernel();
  const int output = (int)blockIdx.x * 8 + warp_of(), lane = lane_of();
  const int expert = p.expert_tiles.experts[blockIdx.y];
  if (expert < 0 || output >= p.tiles * kTileOutputs) return;
  const int* pairs = p.expert_tiles.pairs + (int)blockIdx.y * kExpertTileRows;
  const float* x[kExpertTileRows];
  float sum[kExpertTileRows];
  FT_UNROLL for (int r = 0; r < kExpertTileRows; r++) {
    x[r] = p.in.data + (long long)row_of_place(p, pairs, r) * p.in.stride;
    sum[r] = 0;
  }
  const long long line = ((long long)expert * p.tiles * kTileOutputs + output) * p.padded;
  for (int k = lane * 8; k < p.k; k += 256) {
    float w[8];
    load_weights(p.records, p.wide, line + k, w);
    FT_UNROLL for (int r = 0; r < kExpertTileRows; r++) {
      FT_UNROLL for (int j = 0; j < 8; j++) sum[r] = fma_(w[j], k + j < p.k ? x[r][k + j] : 0.0f, sum[r]);
    }
  }
  FT_UNROLL for (int r = 0; r < kExpertTileRows; r++) {
    const float total = warp_sum(sum[r]);
    if (lane == 0 && pairs[r] >= 0) p.out.data[(long long)pairs[r] * p.out.stride + output] = total;
  }
}

FT_DEVICE float activated(const ExpertActivationArgs& p, float gate, float up) {
  if (p.activation == kExpertSilu) return silu(gate) * up;
  if (p.activation == kExpertGelu) return gelu(gate) * up;
  const float g = gate < p.limit ? gate : p.limit;
  const float u = up < -p.limit ? -p.limit : up < p.limit ? up : p.limit;
  return g * sigmoid(p.alpha * g) * (u + 1.0f);
}

/// Number `i` of the inner row of a pair.
FT_DEVICE float inner_of(const ExpertActivationArgs& p, int pair, int i) {
  float gate = p.gate.data[(long long)pair * p.gate.stride + i];
  float up = p.up.data[(long long)pair * p.up.stride + i];
  if (p.gate_bias != nullptr) {
    const float* const route = p.routes.data + (long long)(pair / p.chosen) * p.routes.stride;
    const long long at = (long long)route[pair % p.chosen] * p.gate.width + i;
    gate = gate + p.gate_bias[at], up = up + p.up_bias[at];
  }
  return activated(p, gate, up);
}

// x: 256 columns; y: pair.
FT_KERNEL(activate_experts, ExpertActivationArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, pair = (int)blockIdx.y;
  if (i >= p.gate.width) return;
  p.gate.data[(long long)pair * p.gate.stride + i] = inner_of(p, pair, i);
}

// x: 512 columns; y: pair.
template <bool Halves>
FT_DEVICE void activate_rows(const ExpertActivationArgs& p) {
  begin_kernel();
  const int at = ((int)blockIdx.x * 128 + (int)threadIdx.x) * 4, pair = (int)blockIdx.y;
  const bool live = at < p.codes.k;
  float v[4];
  FT_UNROLL for (int j = 0; j < 4; j++) v[j] = live ? inner_of(p, pair, at + j) : 0.0f;
  store_rows<Halves, 4>(p.codes, pair, at, v, live);
}

FT_KERNEL(activate_experts_codes, ExpertActivationArgs, 128) { activate_rows<false>(p); }
FT_KERNEL(activate_experts_half, ExpertActivationArgs, 128) { activate_rows<true>(p); }

// A row's experts in ascending order. x: 256 columns; y: row.
FT_KERNEL(sum_experts, ExpertSumArgs, 256) {
  FT_SHARED int order[kMaxChosen];
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y, own = (int)threadIdx.x;
  const float* route = p.routes.data + (long long)row * p.routes.stride;
  if (own < p.chosen) {
    int rank = 0;
    for (int j = 0; j < p.chosen; j++) rank += route[j] < route[own];
    order[rank] = own;
  }
  sync_block();
  if (i >= p.out.width) return;
  float total = 0;
  for (int n = 0; n < p.chosen; n++) {
    const int j = order[n];
    float value = p.in.data[((long long)row * p.chosen + j) * p.in.stride + i];
    if (p.bias != nullptr) value = value + p.bias[(long long)route[j] * p.out.width + i];
    total = total + route[p.chosen + j] * value;
  }
  if (p.residual.data != nullptr) total = p.residual.data[(long long)row * p.residual.stride + i] + total;
  p.out.data[(long long)row * p.out.stride + i] = total;
}

}  // namespace ft::cuda
