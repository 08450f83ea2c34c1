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

/// Sums over the threads of the warp up to this one.
FT_DEVICE int sums_up_to(int own) {
  FT_UNROLL for (int distance = 1; distance < 32; distance *= 2) {
    const int other = shuffle(own, max_(lane_of() - distance, 0));
    own += lane_of() >= distance ? other : 0;
  }
  return own;
}

// One block: a warp per row, then a thread per two experts.
FT_KERNEL(mixture_routes, MixtureArgs, 256) {
  FT_SHARED int experts[kMixturePairs], sums[kMixtureThreads / 32];
  FT_SHARED int rows_of[kMixtureExperts], places[kMixtureExperts];  // of an expert
  FT_SHARED float weights[kMixturePairs];
  release_next();
  const int chosen = p.route.chosen, pairs = p.rows * chosen, own = (int)threadIdx.x, row = warp_of();
  static_assert(kMixtureExperts == 2 * kMixtureThreads);
  rows_of[own] = rows_of[own + kMixtureThreads] = 0;
  sync_block();
  wait_for_rows();
  MixtureRoutes& to = *p.routes;
  if (row < p.rows) {
    int* const here = experts + row * chosen;
    if (p.route.scores.width <= 256)
      choose<8>(p.route, row, here, weights + row * chosen);
    else
      choose<kMixtureExperts / 32>(p.route, row, here, weights + row * chosen);
    if (lane_of() < chosen) atomic_add(&rows_of[here[lane_of()]], 1 << row);
  }
  sync_block();
  const int two[2] = {rows_of[2 * own], rows_of[2 * own + 1]};
  constexpr int kSlots = 1 << 16;  // the upper half counts pairs, the lower one experts
  int before = 0;
  FT_UNROLL for (int i = 0; i < 2; i++) before += (two[i] != 0) + kSlots * set_bits(two[i]);
  const int all = sums_up_to(before);
  before = all - before;
  if (lane_of() == 31) sums[warp_of()] = all;
  sync_block();
  int total = 0;
  FT_UNROLL for (int i = 0; i < kMixtureThreads / 32; i++) {
    before += i < warp_of() ? sums[i] : 0;
    total += sums[i];
  }
  FT_UNROLL for (int i = 0; i < 2; i++) {
    if (two[i] == 0) continue;
    const int place = before % kSlots, slot = before / kSlots;
    places[2 * own + i] = place;
    to.experts[place] = 2 * own + i, to.rows[place] = two[i], to.first[place] = slot;
    int at = slot;
    for (int r = 0; r < p.rows; r++) {
      if (two[i] >> r & 1) to.lines[at++] = place * kMixtureRows + r;
    }
    before += 1 + kSlots * set_bits(two[i]);
  }
  if (own == 0) {
    const int count = total % kSlots, last = total / kSlots, everyone = p.shared_down != nullptr ? p.rows : 0;
    to.count = count, to.slots = last + everyone;
    to.rows[count] = (1 << everyone) - 1, to.first[count] = last;
    for (int r = 0; r < everyone; r++) to.lines[last + r] = kMixturePairs * kMixtureRows + r;
  }
  sync_block();
  if (own < pairs) to.weights[places[experts[own]]][own / chosen] = weights[own];
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

/// A warp's slice of K of a matrix.
struct MixtureSlice {
  int slice, groups, begin, own;

  FT_DEVICE_MEMBER void set(int number, int of_tile) {
    slice = number, groups = of_tile;
    begin = slice_begin(of_tile, slice), own = slice_begin(of_tile, slice + 1) - begin;
  }
  /// Byte of a tile's records where a group of the slice is.
  FT_DEVICE_MEMBER int record(int group) const {
    const int piece = piece_groups(slice_groups(groups));
    if (piece >= slice_groups(groups)) return (begin + group) * kStreamedRecord;  // the only piece
    const int in_piece = group % piece;
    return (piece_record(groups, slice, group - in_piece, piece) + in_piece) * kStreamedRecord;
  }
};

/// A tile of gate and of up, of a distinct expert. The tiles of the expert that every row passes come first.
struct MixtureTile {
  int place, tile, tiles;  // place < 0: that expert

  FT_DEVICE_MEMBER void set(const MixtureArgs& p, int number) {
    const int others = p.shared_inner != nullptr ? p.shared_tiles : 0;
    place = number < others ? -1 : (number - others) / p.tiles;
    tiles = place < 0 ? p.shared_tiles : p.tiles;
    tile = place < 0 ? number : (number - others) % p.tiles;
  }
  FT_DEVICE_MEMBER const u8* records(const MixtureArgs& p) const {
    const u8* const first =
        place < 0 ? p.shared_inner
                  : p.inner + (long long)p.routes->experts[place] * 2 * tiles * p.groups * kStreamedRecord;
    return first + (long long)tile * p.groups * kStreamedRecord;
  }
};

// Blocks walk over tiles: the records of the next one are on their way while one is added up.
FT_KERNEL_SHARING(mixture_inner, MixtureArgs, 256, 3) {
  constexpr int kAhead = 4, kSums = 2 * kSplitK * 128;
  FT_SHARED __attribute__((aligned(16))) float sums[2 * kSums];
  wait_for_rows();
  release_next();  // not before: mixture_down reads the routes before it waits
  const MixtureRoutes& routes = *p.routes;
  const int all = routes.count * p.tiles + (p.shared_inner != nullptr ? p.shared_tiles : 0);
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3, most = slice_groups(p.groups);
  MixtureSlice slice;
  slice.set(warp_of(), p.groups);
  const i8* const x = p.codes + ((long long)min_(quad, p.rows - 1) * p.groups + slice.begin) * 64 + t * 16;
  const float* const scales = p.scales + slice.begin * kScaleFloats + t * 4;
  MixtureRecord a[kAhead], b[kAhead];
  const auto load = [&](int tile, int start) {
    MixtureTile of;
    of.set(p, tile);
    const u8* const gate = of.records(p);
    const long long up = (long long)of.tiles * p.groups * kStreamedRecord;
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      if (start + i >= slice.own) continue;
      const u8* const record = gate + slice.record(start + i);
      a[i].load(record), b[i].load(record + up);
    }
  };
  int number = (int)blockIdx.x, start = 0, buffer = 0;
  if (number >= all) return;
  load(number, 0);
  float acc[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  FT_LOOP while (number < all) {
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      if (start + i >= slice.own) continue;
      const uint4 codes = *(const uint4*)(x + (start + i) * 64);
      const float4 of_rows = *(const float4*)(scales + (start + i) * kScaleFloats);
      a[i].multiply(codes, of_rows, acc[0]);
      b[i].multiply(codes, of_rows, acc[1]);
    }
    start += kAhead;
    if (start < most) {
      load(number, start);
      continue;
    }
    const int done_number = number;
    start = 0, number += p.inner_blocks;
    if (number < all) load(number, 0);
    float* const here = sums + buffer * kSums;
    FT_UNROLL for (int i = 0; i < 2; i++) {
      *(float4*)(here + (i * kSplitK + slice.slice) * 128 + lane * 4) =
          make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
      acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
    }
    sync_block();  // one is enough: the other buffer is free
    buffer ^= 1;
    MixtureTile done;
    done.set(p, done_number);
    const int at = (int)threadIdx.x, row = row_of_number(at);
    if (at >= 128 || row >= p.rows || (done.place >= 0 && (routes.rows[done.place] >> row & 1) == 0))
      continue;
    const float gate_sum = add_slices_of(here, at), up_sum = add_slices_of(here + kSplitK * 128, at);
    const int line = (done.place < 0 ? kMixturePairs : done.place) * kMixtureRows + row;
    p.inner_rows
        .data[(long long)line * p.inner_rows.stride + done.tile * kTileOutputs + output_of_number(at)] =
        (p.gelu ? gelu(gate_sum) : silu(gate_sum)) * up_sum;
  }
}

/// Codes of inner rows, `line` bytes apart, and scale and sum of each group.
FT_DEVICE void make_inner_codes(const MixtureArgs& p, const MixtureRoutes& routes, u8* codes, float2* scales,
                                int line, int groups) {
  const int lane = lane_of();
  for (int slot = warp_of(); slot < routes.slots; slot += kMixtureDownThreads / 32) {
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

/// Which group of which expert a warp has next: one slice of K of every second expert.
struct MixtureWalk {
  int expert, step;

  FT_DEVICE_MEMBER void go_on(int steps) {
    if (++step < steps) return;
    step = 0, expert += kMixtureSets;
  }
};

// x: tile of the output. Two sets of eight warps take experts in turn, a warp a slice of K; the slices of up
// to p.held experts lie in shared memory until they are added, each expert's and then all of a row.
FT_KERNEL(mixture_down, MixtureArgs, 512) {
  FT_SHARED MixtureRoutes routes;
  FT_SHARED u8 slots[kMixturePairs + 1][kMixtureRows];  // codes of a row; of another one where it does not go
  FT_DYNAMIC(memory);                                   // MixtureLayout
  constexpr int kWords = (int)sizeof(MixtureRoutes) / 4, kAhead = kMixtureHeldStep / kMixtureSets;
  release_next();
  const int own = (int)threadIdx.x;
  for (int i = own; i < kWords; i += kMixtureDownThreads)
    ((float*)&routes)[i] = load_fresh((const float*)p.routes + i);
  sync_block();
  const int experts = routes.count + (p.shared_down != nullptr ? 1 : 0);
  const int most = max_(p.down_groups, p.shared_down != nullptr ? p.shared_groups : 0);
  const MixtureLayout layout = mixture_layout(p.rows * p.route.chosen + p.rows, most, p.held);
  const int lane = lane_of(), quad = lane >> 2, t = lane & 3, slice = warp_of() % kSplitK;
  float* const sums = (float*)memory;
  u8* const codes = memory + layout.codes;
  float2* const scales = (float2*)(codes + layout.scales);
  MixtureSlice routed, shared;
  routed.set(slice, p.down_groups), shared.set(slice, p.shared_groups);
  const int tile = (int)blockIdx.x;
  const auto groups_of = [&](int expert) { return expert < routes.count ? routed.own : shared.own; };
  MixtureRecord ahead[kAhead];  // the next ones to multiply
  MixtureWalk next = {warp_of() / kSplitK, 0}, now = next;
  const auto load = [&](MixtureRecord& to) {
    if (next.expert >= experts) return;
    if (next.expert < routes.count) {
      const long long before = (long long)routes.experts[next.expert] * p.out_tiles + tile;
      if (next.step < routed.own)
        to.load(p.down + before * routed.groups * kStreamedRecord + routed.record(next.step));
      return next.go_on(routed.own);
    }
    if (next.step < shared.own)
      to.load(p.shared_down + (long long)tile * shared.groups * kStreamedRecord + shared.record(next.step));
    next.go_on(shared.own);
  };
  FT_UNROLL for (int i = 0; i < kAhead; i++) load(ahead[i]);
  for (int i = own; i < experts * kMixtureRows; i += kMixtureDownThreads) {
    const int expert = i / kMixtureRows, row = i % kMixtureRows, rows = routes.rows[expert];
    slots[expert][row] =
        (u8)(routes.first[expert] + (rows >> row & 1 ? set_bits(rows & ((1 << row) - 1)) : 0));
  }
  wait_for_rows();
  const int row = row_of_number(own), column = tile * kTileOutputs + output_of_number(own);
  const bool live = own < 128 && row < p.rows && column < p.out.width;
  float residual = 0, gate = 0, total = 0, everyone = 0;
  if (live && p.residual.data != nullptr)
    residual = p.residual.data[(long long)row * p.residual.stride + column];
  if (live && p.shared_down != nullptr) gate = p.shared_gate.data[(long long)row * p.shared_gate.stride];
  make_inner_codes(p, routes, codes, scales, layout.line, most);
  FT_LOOP for (int first = 0; first < experts; first += p.held) {
    const int end = min_(experts, first + p.held);
    float acc[4] = {0, 0, 0, 0};
    FT_LOOP while (now.expert < end) {
      FT_UNROLL for (int i = 0; i < kAhead; i++) {
        if (now.expert >= end) continue;
        const int expert = now.expert, groups = groups_of(expert);
        const int group = (expert < routes.count ? routed.begin : shared.begin) + now.step;
        if (now.step < groups) {
          const u8* const slot = slots[expert];
          const float2 a = scales[slot[2 * t] * most + group], b = scales[slot[2 * t + 1] * most + group];
          ahead[i].multiply(*(const uint4*)(codes + slot[quad] * layout.line + group * 64 + t * 16),
                            make_float4(a.x, a.y, b.x, b.y), acc);
        }
        load(ahead[i]);
        now.go_on(groups);
        if (now.step != 0) continue;
        *(float4*)(sums + ((expert - first) * kSplitK + slice) * 128 + lane * 4) =
            make_float4(acc[0], acc[1], acc[2], acc[3]);
        acc[0] = acc[1] = acc[2] = acc[3] = 0;
      }
    }
    sync_block();
    for (int i = own; i < (end - first) * 128; i += kMixtureDownThreads) {
      if (row < p.rows)
        sums[i / 128 * kSplitK * 128 + i % 128] = add_slices_of(sums + i / 128 * kSplitK * 128, i % 128);
    }
    sync_block();
    FT_UNROLL_4 for (int expert = first; expert < end; expert++) {
      if (!live) continue;
      const float value = sums[(expert - first) * kSplitK * 128 + own];
      if (expert >= routes.count) {
        everyone = value;
      } else if (routes.rows[expert] >> row & 1) {
        total = total + routes.weights[expert][row] * value;
      }
    }
    sync_block();
  }
  if (!live) return;
  if (p.shared_down != nullptr) total = total + everyone * sigmoid(gate);
  if (p.residual.data != nullptr) total = residual + total;
  p.out.data[(long long)row * p.out.stride + column] = total;
}

}  // namespace ft::cuda
