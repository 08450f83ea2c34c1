// A mixture of experts for up to eight rows, 4-bit weights in groups of 64, in three launches: mixture_routes
// finds the distinct experts, mixture_inner computes activation(gate * x) * (up * x) of each, mixture_down
// the rest, including the shared expert and the addend, where the program has them. A product has a column
// for each row, whether the row goes to that expert or not. The bits equal those of route, expert_4_64_0,
// swiglu, quantise, sum_experts and so on.
#include "backends/cuda/kernels/product.cuh"
#include "backends/cuda/kernels/quantise.cuh"

namespace ft::cuda {

constexpr int kMixtureThreads = 256;

/// Greater for higher scores; NaN below all, but above 0.
FT_DEVICE u32 order_of(float score) {
  const u32 bits = bits_of(score + 0.0f);  // -0 as 0
  return score != score ? 1u : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/// The sum of the exponentials of a row, as mass_of_block (experts.cu) adds them up.
FT_DEVICE float mass_of_row(const float* scores, int count, float highest) {
  float total = 0;
  FT_LOOP for (int part = 0; part < kMixtureThreads; part += 32) {
    float own = 0;
    for (int i = part + lane_of(); i < count; i += kMixtureThreads) own = own + exp_(scores[i] - highest);
    total = total + warp_sum(own);
  }
  return total;
}

/// A warp per row: its experts by falling score, and their weights. `Own`: scores of a lane.
template <int Own>
FT_DEVICE void choose(const RouteArgs& p, int row, int* experts, float* weights) {
  const float* const scores = p.scores.data + (long long)row * p.scores.stride;
  const int lane = lane_of();
  u32 left[Own];
  FT_UNROLL for (int i = 0; i < Own; i++) {
    const int at = i * 32 + lane;
    left[i] = at < p.scores.width ? order_of(scores[at]) : 0;
  }
  int mine = 0;  // the expert of place `lane`
  FT_LOOP for (int n = 0; n < p.chosen; n++) {
    u32 best = 0;
    FT_UNROLL for (int i = 0; i < Own; i++) best = left[i] > best ? left[i] : best;
    best = warp_max_of(best);
    u32 first = ~0u;  // the lowest index that has it
    FT_UNROLL for (int i = Own - 1; i >= 0; i--) first = left[i] == best ? (u32)(i * 32 + lane) : first;
    first = ~warp_max_of(~first);
    FT_UNROLL for (int i = 0; i < Own; i++) left[i] = (u32)(i * 32 + lane) == first ? 0 : left[i];
    mine = lane == n ? (int)first : mine;
  }
  const float score = scores[mine], highest = shuffle(score, 0);
  const float own = exp_(score - highest);
  float mass = 0;
  if (p.renormalised) {
    FT_LOOP for (int n = 0; n < p.chosen; n++) mass = mass + shuffle(own, n);
  } else {
    mass = mass_of_row(scores, p.scores.width, highest);
  }
  if (lane >= p.chosen) return;
  const float weight = own / mass;
  experts[lane] = mine;
  weights[lane] = p.scale == nullptr ? weight : weight * p.scale[mine];
}

FT_DEVICE int set_bits(int bits) {
  int count = 0;
  FT_UNROLL for (int r = 0; r < kMixtureRows; r++) count += bits >> r & 1;
  return count;
}

// One block; a warp per row.
FT_KERNEL(mixture_routes, MixtureArgs, 256) {
  FT_SHARED int experts[kMixturePairs], firsts[kMixturePairs];
  FT_SHARED int rows_of[kMixturePairs + 1];
  FT_SHARED float weights[kMixturePairs];
  begin_kernel();
  MixtureRoutes& to = *p.routes;
  const int chosen = p.route.chosen, pairs = p.rows * chosen, own = (int)threadIdx.x, row = warp_of();
  if (row < p.rows) {
    if (p.route.scores.width <= 256)
      choose<8>(p.route, row, experts + row * chosen, weights + row * chosen);
    else
      choose<kMixtureExperts / 32>(p.route, row, experts + row * chosen, weights + row * chosen);
  }
  sync_block();
  int rows = 0, first = own < pairs ? 1 : 0;  // first: no pair before has this expert
  if (own < pairs) {
    for (int q = 0; q < pairs; q++) {
      const int same = experts[q] == experts[own] ? 1 : 0;
      rows |= same << (q / chosen);
      first = same && q < own ? 0 : first;
    }
    firsts[own] = first;
  }
  sync_block();
  int place = 0, count = 0;
  if (own < pairs) {
    for (int q = 0; q < pairs; q++) count += firsts[q], place += firsts[q] && experts[q] < experts[own];
    if (first) rows_of[place] = rows;
    if (own == 0) rows_of[count] = p.shared_down != nullptr ? (1 << p.rows) - 1 : 0, to.count = count;
  }
  sync_block();
  if (own >= pairs) return;
  const auto slot_before = [&](int expert) {
    int before = 0;
    for (int i = 0; i < expert; i++) before += set_bits(rows_of[i]);
    return before;
  };
  const int slot = slot_before(place), own_row = own / chosen;
  to.weights[place][own_row] = weights[own];
  to.lines[slot + set_bits(rows & ((1 << own_row) - 1))] = place * kMixtureRows + own_row;
  if (first) to.experts[place] = experts[own], to.rows[place] = rows, to.first[place] = slot;
  if (own > 0) return;
  const int last = slot_before(count);
  to.rows[count] = rows_of[count], to.first[count] = last, to.slots = last + set_bits(rows_of[count]);
  for (int r = 0; rows_of[count] >> r & 1; r++) to.lines[last + r] = kMixturePairs * kMixtureRows + r;
}

/// The codes of a record and the scales of a lane's two outputs.
struct MixtureRecord {
  uint4 words;
  uint2 pairs;
  FT_DEVICE_MEMBER void load(const u8* record) {
    words = *(const uint4*)(record + lane_of() * 16);
    pairs = *(const uint2*)(record + 512 + (lane_of() >> 2) * 8);
  }
  /// acc += the product with a group of rows: `x` of the row of the lane's quad, `scales` as in add_group.
  FT_DEVICE_MEMBER void multiply(uint4 x, float4 scales, float (&acc)[4]) const {
    u32 low[4], high[4];
    split_halves(words, low, high);
    int dot[4] = {0, 0, 0, 0};
    mma_bytes(dot, low[0], low[1], low[2], low[3], x.x, x.y);
    mma_bytes(dot, high[0], high[1], high[2], high[3], x.z, x.w);
    const float scale[2] = {bf16_low(pairs.x), bf16_low(pairs.y)},
                bias[2] = {bf16_high(pairs.x), bf16_high(pairs.y)};
    add_group(acc, dot, scale, bias, scales);
  }
};

/// The sum of eight slices, in order, of number `at` of a warp's 128.
FT_DEVICE float add_slices_of(const float* sums, int at) {
  float total = sums[at];
  FT_UNROLL for (int slice = 1; slice < kSplitK; slice++) total = total + sums[slice * 128 + at];
  return total;
}

/// The row and the output of number `at`.
FT_DEVICE int row_of_number(int at) { return at / 4 % 4 * 2 + at % 2; }
FT_DEVICE int output_of_number(int at) { return at / 16 + at % 4 / 2 * 8; }

// x: tile of gate and of up; y: distinct expert; the shared expert is first, if there is one.
FT_KERNEL_SHARING(mixture_inner, MixtureArgs, 256, 3) {
  constexpr int kAhead = 4;
  FT_SHARED __attribute__((aligned(16))) float sums[2 * kSplitK * 128];
  wait_for_rows();
  release_next();  // not before: mixture_down reads the routes before it waits
  const MixtureRoutes& routes = *p.routes;
  const int others = p.shared_inner != nullptr ? 1 : 0, place = (int)blockIdx.y - others;
  const int tiles = place < 0 ? p.shared_tiles : p.tiles, tile = (int)blockIdx.x;
  if (tile >= tiles) return;
  const u8* records = p.shared_inner;
  if (place >= 0) {
    if (place >= routes.count) return;
    records = p.inner + (long long)routes.experts[place] * 2 * tiles * p.groups * kStreamedRecord;
  }
  const u8* const gate = records + (long long)tile * p.groups * kStreamedRecord;
  const u8* const up = gate + (long long)tiles * p.groups * kStreamedRecord;
  const int lane = lane_of(), slice = warp_of(), quad = lane >> 2, t = lane & 3;
  const int begin = slice_begin(p.groups, slice), own = slice_begin(p.groups, slice + 1) - begin;
  const int piece = piece_groups(slice_groups(p.groups));
  const i8* const x = p.codes + ((long long)min_(quad, p.rows - 1) * p.groups + begin) * 64 + t * 16;
  const float* const scales = p.scales + begin * kScaleFloats + t * 4;
  float acc[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  for (int start = 0; start < own; start += piece) {
    const int first = piece_record(p.groups, slice, start, piece), count = min_(piece, own - start);
    for (int done = 0; done < count; done += kAhead) {
      MixtureRecord a[kAhead], b[kAhead];
      FT_UNROLL for (int i = 0; i < kAhead; i++) {
        if (done + i >= count) continue;
        a[i].load(gate + (first + done + i) * kStreamedRecord);
        b[i].load(up + (first + done + i) * kStreamedRecord);
      }
      FT_UNROLL for (int i = 0; i < kAhead; i++) {
        if (done + i >= count) continue;
        const int g = start + done + i;
        const uint4 codes = *(const uint4*)(x + g * 64);
        const float4 of_rows = *(const float4*)(scales + g * kScaleFloats);
        a[i].multiply(codes, of_rows, acc[0]);
        b[i].multiply(codes, of_rows, acc[1]);
      }
    }
  }
  FT_UNROLL for (int i = 0; i < 2; i++) {
    *(float4*)(sums + (i * kSplitK + slice) * 128 + lane * 4) =
        make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
  }
  sync_block();
  const int at = (int)threadIdx.x, row = row_of_number(at);
  if (at >= 128 || row >= p.rows || (place >= 0 && (routes.rows[place] >> row & 1) == 0)) return;
  const float gate_sum = add_slices_of(sums, at), up_sum = add_slices_of(sums + kSplitK * 128, at);
  const int line = (place < 0 ? kMixturePairs : place) * kMixtureRows + row;
  p.inner_rows.data[(long long)line * p.inner_rows.stride + tile * kTileOutputs + output_of_number(at)] =
      (p.gelu ? gelu(gate_sum) : silu(gate_sum)) * up_sum;
}

/// Codes of inner rows, `line` bytes apart, and scale and sum of each group.
FT_DEVICE void make_inner_codes(const MixtureArgs& p, const MixtureRoutes& routes, u8* codes, float2* scales,
                                int line, int groups) {
  const int lane = lane_of();
  for (int slot = warp_of(); slot < routes.slots; slot += kMixtureThreads / 32) {
    const int from = routes.lines[slot];
    const int k = (from < kMixturePairs * kMixtureRows ? p.down_groups : p.shared_groups) * 64;
    const float* const in = p.inner_rows.data + (long long)from * p.inner_rows.stride;
    for (int first = 0; first < k; first += 512) {
      const int at = first + lane * 16;
      float v[16];
      load16(in + (at < k ? at : 0), 16, v);
      const Codes<16> made = make_codes<16>(64, v);
      if (at >= k) continue;
      *(uint4*)(codes + slot * line + at) =
          make_uint4(made.words[0], made.words[1], made.words[2], made.words[3]);
      if (at % 64 == 0) {
        float2& to = scales[slot * groups + at / 64];
        to.x = made.scale, to.y = made.scale * (float)made.total;
      }
    }
  }
  sync_block();
}

/// A warp's slice of a down matrix: of all chosen experts, or of the shared one.
struct MixtureSlice {
  int groups, begin, own, piece;

  FT_DEVICE_MEMBER void set(int of_tile) {
    groups = of_tile, piece = piece_groups(slice_groups(of_tile));
    begin = slice_begin(of_tile, warp_of()), own = slice_begin(of_tile, warp_of() + 1) - begin;
  }
  /// Offset of a group of the slice in a tile's records, in bytes.
  FT_DEVICE_MEMBER int record(int group) const {
    const int in_piece = group % piece;
    return (piece_record(groups, warp_of(), group - in_piece, piece) + in_piece) * kStreamedRecord;
  }
};

// x: tile of the output. The experts' slices of K are held in registers for kMixtureHeld experts, then added.
FT_KERNEL(mixture_down, MixtureArgs, 256) {
  FT_SHARED MixtureRoutes routes;
  FT_DYNAMIC(memory);  // MixtureLayout
  constexpr int kHeld = kMixtureHeld, kWords = (int)sizeof(MixtureRoutes) / 4;
  release_next();
  for (int i = (int)threadIdx.x; i < kWords; i += kMixtureThreads)
    ((float*)&routes)[i] = load_fresh((const float*)p.routes + i);
  sync_block();
  const int experts = routes.count + (p.shared_down != nullptr ? 1 : 0);
  const int most = max_(p.down_groups, p.shared_down != nullptr ? p.shared_groups : 0);
  const MixtureLayout layout = mixture_layout(p.rows * p.route.chosen + p.rows, most);
  const int steps = slice_groups(most), line = layout.line, lane = lane_of(), quad = lane >> 2, t = lane & 3;
  float* const sums = (float*)memory;
  u8* const codes = memory + layout.codes;
  float2* const scales = (float2*)(codes + layout.scales);
  MixtureRecord ahead[kHeld];  // the next ones to multiply
  MixtureSlice routed, shared;
  routed.set(p.down_groups), shared.set(p.shared_groups);
  const int tile = (int)blockIdx.x;
  const auto load = [&](int first, int step) {
    const int at = step < routed.own ? routed.record(step) : -1;
    const int at_shared = step < shared.own ? shared.record(step) : -1;
    FT_UNROLL for (int i = 0; i < kHeld; i++) {
      const int expert = first + i;
      if (expert < routes.count) {
        const long long before = (long long)routes.experts[expert] * p.out_tiles + tile;
        if (at >= 0) ahead[i].load(p.down + before * routed.groups * kStreamedRecord + at);
      } else if (expert < experts && at_shared >= 0) {
        ahead[i].load(p.shared_down + (long long)tile * shared.groups * kStreamedRecord + at_shared);
      }
    }
  };
  load(0, 0);
  wait_for_rows();
  make_inner_codes(p, routes, codes, scales, line, most);
  const int at = (int)threadIdx.x, row = row_of_number(at);
  const int column = (int)blockIdx.x * kTileOutputs + output_of_number(at);
  float total = 0, everyone = 0;
  FT_LOOP for (int first = 0; first < experts; first += kHeld) {
    float acc[kHeld][4];
    FT_UNROLL for (int i = 0; i < kHeld; i++) FT_UNROLL for (int j = 0; j < 4; j++) acc[i][j] = 0;
    FT_LOOP for (int step = 0; step < steps; step++) {
      FT_UNROLL for (int i = 0; i < kHeld; i++) {
        const MixtureSlice& down = first + i < routes.count ? routed : shared;
        if (first + i >= experts || step >= down.own) continue;
        const int here = routes.rows[first + i], from = routes.first[first + i], group = down.begin + step;
        const auto slot = [&](int r) {
          return here >> r & 1 ? from + set_bits(here & ((1 << r) - 1)) : from;
        };
        const float2 a = scales[slot(2 * t) * most + group], b = scales[slot(2 * t + 1) * most + group];
        ahead[i].multiply(*(const uint4*)(codes + slot(quad) * line + group * 64 + t * 16),
                          make_float4(a.x, a.y, b.x, b.y), acc[i]);
      }
      if (step + 1 < steps) load(first, step + 1);
    }
    load(first + kHeld, 0);
    FT_UNROLL for (int i = 0; i < kHeld; i++) {
      *(float4*)(sums + (i * kSplitK + warp_of()) * 128 + lane * 4) =
          make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
    }
    sync_block();
    if (at < 128) {
      FT_UNROLL for (int i = 0; i < kHeld; i++) {
        const int expert = first + i;
        if (expert >= experts) continue;
        const float value = add_slices_of(sums + i * kSplitK * 128, at);
        if (expert >= routes.count) {
          everyone = value;
        } else if (routes.rows[expert] >> row & 1) {
          total = total + routes.weights[expert][row] * value;
        }
      }
    }
    sync_block();
  }
  if (at >= 128 || row >= p.rows || column >= p.out.width) return;
  if (p.shared_down != nullptr)
    total = total + everyone * sigmoid(p.shared_gate.data[(long long)row * p.shared_gate.stride]);
  if (p.residual.data != nullptr)
    total = p.residual.data[(long long)row * p.residual.stride + column] + total;
  p.out.data[(long long)row * p.out.stride + column] = total;
}

}  // namespace ft::cuda
