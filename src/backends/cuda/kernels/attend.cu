// Attention over the timeline's cache. A query's arithmetic depends on its own position alone: units of 32
// positions with a running maximum, their products by tensor cores on float16, splits of units that begin at
// fixed positions (first_of_split), the splits' results added in ascending order. Cache: [block][layer][kv
// head][keys 32 x head_dim, values 32 x head_dim] of float16 (saturated), or of 8-bit codes with 32 float
// scales of the keys and 32 of the values after them.
#include "backends/cuda/kernels/attend.cuh"

namespace ft::cuda {

/// A softmax before the division by its mass: a lane has the dims 64 j + 2 lane, + 1.
template <int Dims>
struct Running {
  float top, mass, sum[Dims];
  FT_DEVICE_MEMBER void clear() {
    top = float_of(0xff800000u);
    mass = 0;
    FT_UNROLL for (int i = 0; i < Dims; i++) sum[i] = 0;
  }
  /// Adds the following positions, in order.
  FT_DEVICE_MEMBER void add(const Running& next) {
    const float most = max_(top, next.top), old = exp_(top - most), fresh = exp_(next.top - most);
    mass = mass * old + next.mass * fresh;
    FT_UNROLL for (int i = 0; i < Dims; i++) sum[i] = sum[i] * old + next.sum[i] * fresh;
    top = most;
  }
};

template <int Dims>
FT_DEVICE void load_gates(const AttendArgs& p, int row, int head, float (&gates)[Dims]) {
  const float* gate = p.q.data + (long long)row * p.q.stride + (2 * head + 1) * p.head_dim;
  FT_UNROLL for (int i = 0; i < Dims; i++) {
    const int d = i / 2 * 64 + 2 * lane_of() + i % 2;
    gates[i] = p.gated && d < p.head_dim ? gate[d] : 0.0f;
  }
}
template <int Dims>
FT_DEVICE void store_result(const AttendArgs& p, int row, int head, const Running<Dims>& result,
                            const float (&gates)[Dims]) {
  float* out = p.out.data + (long long)row * p.out.stride + head * p.head_dim;
  FT_UNROLL for (int i = 0; i < Dims; i++) {
    const int d = i / 2 * 64 + 2 * lane_of() + i % 2;
    if (d >= p.head_dim) continue;
    const float value = result.sum[i] / result.mass;
    out[d] = p.gated ? value * sigmoid(gates[i]) : value;
  }
}

// One warp per head of a row, four warps per block; y: row; z: segment.
template <int Dims>
FT_DEVICE void attend_combine(const AttendArgs& p) {
  const int head = (int)blockIdx.x * 4 + warp_of(), row = (int)blockIdx.y;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  if (head >= p.heads || row < s.first_row || row >= s.first_row + s.rows) return;
  const Seen seen = seen_by(p, s, row - s.first_row);
  constexpr int kAhead = Dims > 8 ? 4 : 8;  // splits whose results are loaded at once
  Running<Dims> whole, parts[kAhead];
  whole.clear();
  const int size = p.head_dim + kPartialExtra;
  const float* all = p.partials + ((long long)row * p.heads + head) * p.splits * size;
  int split = 0;
  while (first_of_split(split + 1) <= seen.first) split++;
  float gates[Dims];
  wait_for_rows();
  load_gates(p, row, head, gates);
  FT_LOOP for (; split < p.splits && first_of_split(split) < seen.end; split += kAhead) {
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      const float* from = all + (long long)min_(split + i, p.splits - 1) * size;
      FT_UNROLL for (int j = 0; j < Dims; j++) {
        const int d = j / 2 * 64 + 2 * lane_of() + j % 2;
        parts[i].sum[j] = d < p.head_dim ? from[d] : 0.0f;
      }
      parts[i].top = from[p.head_dim], parts[i].mass = from[p.head_dim + 1];
    }
    FT_UNROLL for (int i = 0; i < kAhead; i++) {
      if (split + i < p.splits && first_of_split(split + i) < seen.end) whole.add(parts[i]);
    }
  }
  if (p.sinks != nullptr) {
    Running<Dims>& sink = parts[0];
    sink.clear();
    sink.top = p.sinks[head], sink.mass = 1;
    whole.add(sink);
  }
  store_result(p, row, head, whole, gates);
}

// ---- a block reads keys and values once for all of its queries ----

constexpr int kAttendThreads = 256, kAttendLanes = 8;  // kAttendLanes: threads that share a row of a unit
constexpr float kWeightUnit = 16384.0f;  // of weights in float16: those below 2^-14 keep their digits

/// Shared memory of a block for tiles of 16 queries; stages of keys and values follow. Rows are 16 bytes
/// longer than their contents: eight lanes that read eight rows meet no bank twice.
template <int Dims, int Tiles>
struct AttendBlock {
  u16 queries[16 * Tiles][Dims + 8];
  float scores[16 * Tiles][kCacheRows + 4];
  u16 weights[16 * Tiles][kCacheRows + 8];
  float old[16 * Tiles], fresh[16 * Tiles];  // factors of the earlier sums, and of the added ones
};
template <int Dims>
struct AttendStage {
  u16 keys[kCacheRows][Dims + 8];
  u16 values[kCacheRows][Dims + 8];
};

template <int Dims, int Tiles>
constexpr bool kAttendFits = (int)sizeof(AttendBlock<Dims, Tiles>) == attend_block_bytes(Dims, Tiles) &&
                             (int)sizeof(AttendStage<Dims>) == attend_stage_bytes(Dims);

FT_DEVICE u16 half_within(float value) {
  return float_to_half(value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value);
}

/// Sixteen neighbouring codes of 8 bits times their scale.
FT_DEVICE void widen(u16* to, const u8* from, float scale) {
  const uint4 codes = *(const uint4*)from;
  const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
  u32 pairs[8];
  FT_UNROLL for (int i = 0; i < 8; i++) {
    const u32 two = words[i / 2] >> (16 * (i % 2));
    pairs[i] = (u32)half_within((float)(i8)(two & 255) * scale) |
               (u32)half_within((float)(i8)(two >> 8 & 255) * scale) << 16;
  }
  *(uint4*)to = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  *(uint4*)(to + 8) = make_uint4(pairs[4], pairs[5], pairs[6], pairs[7]);
}

/// The unit at `at`; its values from `end` on are zeros: a weight of zero must not meet a NaN.
template <int Dims>
FT_DEVICE void load_unit(const AttendArgs& p, const SegmentPlace& s, int kv_head, int at, int end,
                         AttendStage<Dims>& stage) {
  const u8* keys = head_of(p, p.step.blocks[s.first_block + at / kCacheRows], kv_head);
  const u8* values = keys + kCacheRows * p.head_dim * (p.kv_bits / 8);
  const int row = (int)threadIdx.x / kAttendLanes, lane = (int)threadIdx.x % kAttendLanes;
  const bool live = at + row < end;
  if (p.kv_bits == 16 && p.head_dim % 8 == 0) {
    FT_UNROLL_4 for (int d = lane * 8; d < p.head_dim; d += kAttendLanes * 8) {
      const int from = (row * p.head_dim + d) * 2;
      copy_async(&stage.keys[row][d], keys + from);
      copy_async_or_zero(&stage.values[row][d], values + from, live);
    }
    return;
  }
  const float* scales = (const float*)(values + kCacheRows * p.head_dim);
  const float key_scale = p.kv_bits == 8 && live ? scales[row] : 0.0f;
  const float value_scale = p.kv_bits == 8 && live ? scales[kCacheRows + row] : 0.0f;
  if (p.kv_bits == 8 && p.head_dim % 16 == 0) {
    FT_LOOP for (int d = lane * 16; d < p.head_dim; d += kAttendLanes * 16) {
      widen(&stage.keys[row][d], keys + row * p.head_dim + d, key_scale);
      widen(&stage.values[row][d], values + row * p.head_dim + d, value_scale);
    }
    return;
  }
  FT_LOOP for (int d = lane; d < p.head_dim; d += kAttendLanes) {
    const int from = row * p.head_dim + d;
    const bool halves = p.kv_bits == 16;
    stage.keys[row][d] =
        halves ? ((const u16*)keys)[from] : half_within((float)((const i8*)keys)[from] * key_scale);
    stage.values[row][d] = !live    ? (u16)0
                           : halves ? ((const u16*)values)[from]
                                    : half_within((float)((const i8*)values)[from] * value_scale);
  }
}

FT_DEVICE void wait_for_unit(int stages) {
  if (stages == 3)
    copies_left<1>();
  else
    copies_left<0>();
}

/// The queries of a block: query i of a kv head is row i / group of the segment, head i % group of the kv
/// head's group. A row of softmax has four neighbouring threads.
struct AttendPlace {
  SegmentPlace segment;
  int group, kv_head, first, last;
  FT_DEVICE_MEMBER int row(int query) const { return segment.first_row + query / group; }
  FT_DEVICE_MEMBER int head(int query) const { return kv_head * group + query % group; }
};

/// Sixteen threads a query, all of its values at once.
template <int Dims, int Tiles>
FT_DEVICE void load_queries(const AttendArgs& p, const AttendPlace& place, AttendBlock<Dims, Tiles>& own) {
  constexpr int kLanes = kAttendThreads / 16;
  const int lane = (int)threadIdx.x % kLanes;
  FT_LOOP for (int m = 0; m < Tiles; m++) {
    const int i = 16 * m + (int)threadIdx.x / kLanes, query = place.first + i;
    const bool live = query <= place.last;
    const int own_query = live ? query : place.first;
    const float* from =
        p.queries + ((long long)place.row(own_query) * p.heads + place.head(own_query)) * p.head_dim;
    float2 two[Dims / 32];
    FT_UNROLL for (int n = 0; n < Dims / 32; n++) {
      const int d = 2 * (lane + kLanes * n);
      two[n] = live && d < p.head_dim ? *(const float2*)(from + d) : make_float2(0, 0);
    }
    FT_UNROLL for (int n = 0; n < Dims / 32; n++) {
      *(u32*)&own.queries[i][2 * (lane + kLanes * n)] =
          (u32)half_within(two[n].x) | (u32)half_within(two[n].y) << 16;
    }
  }
}

/// Scores of the unit. Warp: positions 8 (warp % 4) ... + 7 of every other tile; two chains over the dims.
template <int Dims, int Tiles>
FT_DEVICE void score_unit(const AttendStage<Dims>& stage, AttendBlock<Dims, Tiles>& own) {
  const int column = warp_of() % 4 * 8, quad = lane_of() >> 2, t = lane_of() & 3;
  FT_LOOP for (int m = warp_of() / 4; m < Tiles; m += 2) {
    float even[4] = {0, 0, 0, 0}, odd[4] = {0, 0, 0, 0};
    FT_UNROLL_4 for (int k = 0; k < Dims; k += 32) {
      u32 a[4], b[4];
      load_right(b, &stage.keys[column][k], Dims + 8);
      load_left(a, &own.queries[16 * m][k], Dims + 8);
      mma_halves(even, a, b[0], b[1]);
      load_left(a, &own.queries[16 * m][k + 16], Dims + 8);
      mma_halves(odd, a, b[2], b[3]);
    }
    FT_UNROLL for (int i = 0; i < 4; i++) {
      own.scores[16 * m + quad + i / 2 * 8][column + 2 * t + i % 2] = even[i] + odd[i];
    }
  }
}

/// Running maximum and mass of a query, the same in the four threads of its row.
struct Level {
  float top, mass;
  FT_DEVICE_MEMBER void clear() { top = float_of(0xff800000u), mass = 0; }
};

/// Weights of the unit at `at` for the thread's eight positions of its row, and the factor of earlier sums.
template <int Dims, int Tiles>
FT_DEVICE void weigh_unit(const Seen& seen, int at, int row, int part, Level& level,
                          AttendBlock<Dims, Tiles>& own) {
  float v[8];
  FT_UNROLL for (int j = 0; j < 8; j += 4) {
    const float4 four = *(const float4*)&own.scores[row][8 * part + j];
    v[j] = four.x, v[j + 1] = four.y, v[j + 2] = four.z, v[j + 3] = four.w;
  }
  float most = float_of(0xff800000u);
  FT_UNROLL for (int j = 0; j < 8; j++) {
    const int position = at + 8 * part + j;
    if (position < seen.first || position >= seen.end) v[j] = float_of(0xff800000u);
    most = max_(most, v[j]);
  }
  most = max_(most, shuffle_xor(most, 1));
  most = max_(level.top, max_(most, shuffle_xor(most, 2)));
  const float old = exp_(level.top - most);
  float sum = 0;
  FT_UNROLL for (int j = 0; j < 8; j++) {
    v[j] = exp_(v[j] - most);
    sum = sum + v[j];
  }
  sum = sum + shuffle_xor(sum, 1);
  sum = sum + shuffle_xor(sum, 2);
  level.top = most, level.mass = level.mass * old + sum;
  u32 pairs[4];
  FT_UNROLL for (int j = 0; j < 4; j++) pairs[j] =
      (u32)float_to_half(v[2 * j] * kWeightUnit) | (u32)float_to_half(v[2 * j + 1] * kWeightUnit) << 16;
  *(uint4*)&own.weights[row][8 * part] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  if (part == 0) own.old[row] = old;
}

/// Sums of a warp: dims [Dims / 8 * warp, ...) of all queries, as the matrix instruction has them.
template <int Dims, int Tiles>
struct AttendSums {
  static constexpr int kColumns = Dims / 64;
  float of[Tiles][kColumns][4];
  FT_DEVICE_MEMBER void clear() {
    FT_UNROLL for (int m = 0; m < Tiles; m++) FT_UNROLL for (int n = 0; n < kColumns; n++)
        FT_UNROLL for (int i = 0; i < 4; i++) of[m][n][i] = 0;
  }
  FT_DEVICE_MEMBER static int dim(int n, int i) {
    return Dims / 8 * warp_of() + 8 * n + 2 * (lane_of() & 3) + i % 2;
  }
  FT_DEVICE_MEMBER static int row(int m, int i) { return 16 * m + (lane_of() >> 2) + i / 2 * 8; }
};

template <int Dims, int Tiles>
FT_DEVICE void add_values(const AttendStage<Dims>& stage, const AttendBlock<Dims, Tiles>& own,
                          AttendSums<Dims, Tiles>& sums) {
  u32 weights[Tiles][2][4];
  float old[Tiles][2];
  FT_UNROLL for (int m = 0; m < Tiles; m++) {
    FT_UNROLL for (int half = 0; half < 2; half++) {
      load_left(weights[m][half], &own.weights[16 * m][16 * half], kCacheRows + 8);
      old[m][half] = own.old[sums.row(m, 2 * half)];
    }
  }
  FT_UNROLL for (int n = 0; n < Dims / 64; n++) {
    u32 v[4];
    load_right_turned(v, &stage.values[0][Dims / 8 * warp_of() + 8 * n], Dims + 8);
    FT_UNROLL for (int m = 0; m < Tiles; m++) {
      float product[4] = {0, 0, 0, 0};
      mma_halves(product, weights[m][0], v[0], v[1]);
      mma_halves(product, weights[m][1], v[2], v[3]);
      FT_UNROLL for (int i = 0; i < 4; i++) sums.of[m][n][i] =
          fma_(sums.of[m][n][i], old[m][i / 2], product[i]);
    }
  }
}

/// Writes a split's results of the queries that see a part of it to memory.
template <int Dims, int Tiles>
FT_DEVICE void store_split(const AttendArgs& p, const AttendPlace& place, int split, const Level& level,
                           const AttendSums<Dims, Tiles>& sums) {
  const auto to = [&](int query) {
    return p.partials + (((long long)place.row(query) * p.heads + place.head(query)) * p.splits + split) *
                            (p.head_dim + kPartialExtra);
  };
  const auto sees = [&](int query) {
    if (query > place.last) return false;
    const Seen seen = seen_by(p, place.segment, query / place.group);
    return seen.end > first_of_split(split) && seen.first < first_of_split(split + 1);
  };
  FT_UNROLL for (int m = 0; m < Tiles; m++) {
    FT_UNROLL for (int i = 0; i < 4; i += 2) {
      const int query = place.first + sums.row(m, i);
      if (!sees(query)) continue;
      FT_UNROLL for (int n = 0; n < Dims / 64; n++) {
        if (sums.dim(n, 0) >= p.head_dim) continue;
        to(query)[sums.dim(n, 0)] = sums.of[m][n][i] * (1.0f / kWeightUnit);
        to(query)[sums.dim(n, 1)] = sums.of[m][n][i + 1] * (1.0f / kWeightUnit);
      }
    }
  }
  const int row = (int)threadIdx.x / 4, query = place.first + row;
  if (row >= 16 * Tiles || threadIdx.x % 4 != 0 || !sees(query)) return;
  to(query)[p.head_dim] = level.top, to(query)[p.head_dim + 1] = level.mass;
}

/// Adds a split's results to the earlier splits' results, as attend_combine does.
template <int Dims, int Tiles>
FT_DEVICE void add_split(Level& whole_level, const Level& level, AttendBlock<Dims, Tiles>& own,
                         AttendSums<Dims, Tiles>& whole, const AttendSums<Dims, Tiles>& sums) {
  const int row = (int)threadIdx.x / 4;
  const float most = max_(whole_level.top, level.top), old = exp_(whole_level.top - most),
              fresh = exp_(level.top - most);
  whole_level.top = most, whole_level.mass = whole_level.mass * old + level.mass * fresh;
  sync_block();  // all have read the factors of the last unit
  if (row < 16 * Tiles && threadIdx.x % 4 == 0) own.old[row] = old, own.fresh[row] = fresh;
  sync_block();
  FT_UNROLL for (int m = 0; m < Tiles; m++) FT_UNROLL for (int n = 0; n < Dims / 64; n++)
      FT_UNROLL for (int i = 0; i < 4; i++) {
    const int at = sums.row(m, i);
    whole.of[m][n][i] =
        whole.of[m][n][i] * own.old[at] + sums.of[m][n][i] * (1.0f / kWeightUnit) * own.fresh[at];
  }
}

template <int Dims, int Tiles>
FT_DEVICE void store_whole(const AttendArgs& p, const AttendPlace& place, const Level& level,
                           AttendBlock<Dims, Tiles>& own, const AttendSums<Dims, Tiles>& whole) {
  sync_block();
  if (threadIdx.x / 4 < 16 * Tiles && threadIdx.x % 4 == 0) own.fresh[threadIdx.x / 4] = level.mass;
  sync_block();
  FT_UNROLL for (int m = 0; m < Tiles; m++) FT_UNROLL for (int n = 0; n < Dims / 64; n++)
      FT_UNROLL for (int i = 0; i < 4; i++) {
    const int query = place.first + whole.row(m, i), d = whole.dim(n, i);
    if (query > place.last || d >= p.head_dim) continue;
    const int row = place.row(query), head = place.head(query);
    const float value = whole.of[m][n][i] / own.fresh[whole.row(m, i)];
    const float* gate = p.q.data + (long long)row * p.q.stride + (2 * head + 1) * p.head_dim;
    p.out.data[(long long)row * p.out.stride + head * p.head_dim + d] =
        p.gated ? value * sigmoid(gate[d]) : value;
  }
}

// x: (tiles of queries, kv head); y: split, or one block for all (Walks); z: segment.
template <int Dims, int Tiles, bool Walks>
FT_DEVICE void attend(const AttendArgs& p, u8* memory) {
  static_assert(kAttendFits<Dims, Tiles>, "the host counts other bytes");
  AttendBlock<Dims, Tiles>& own = *(AttendBlock<Dims, Tiles>*)memory;
  AttendStage<Dims>* stages = (AttendStage<Dims>*)(memory + sizeof(AttendBlock<Dims, Tiles>));
  AttendPlace place;
  const SegmentPlace& s = place.segment = p.step.segments[blockIdx.z];
  place.group = p.heads / p.kv_heads, place.kv_head = (int)blockIdx.x % p.kv_heads;
  place.first = (int)blockIdx.x / p.kv_heads * 16 * Tiles;
  if (place.first >= s.rows * place.group) return;
  place.last = min_(place.first + 16 * Tiles, s.rows * place.group) - 1;
  const int lowest = seen_by(p, s, place.first / place.group).first;
  const int end = seen_by(p, s, place.last / place.group).end;
  int split = Walks ? 0 : (int)blockIdx.y;
  if (Walks)
    while (first_of_split(split + 1) <= lowest) split++;
  const int begin = max_(first_of_split(split), lowest / kCacheRows * kCacheRows);
  const int stop = Walks ? end : min_(first_of_split(split + 1), end);
  if (begin >= stop) return;
  for (int i = 0; i < p.stages; i++) {
    const int row = (int)threadIdx.x / kAttendLanes;
    for (int d = p.head_dim + (int)threadIdx.x % kAttendLanes; d < Dims; d += kAttendLanes)
      stages[i].keys[row][d] = stages[i].values[row][d] = 0;
  }
  const int ahead = p.stages - 1;
  int loaded = 0;  // units of earlier steps, which are complete before this step's rows
  for (; loaded < ahead && begin + kCacheRows * (loaded + 1) <= min_(stop, s.position); loaded++) {
    load_unit(p, s, place.kv_head, begin + kCacheRows * loaded, end, stages[loaded]);
    end_copies();
  }
  wait_for_rows();
  for (; loaded < ahead; loaded++) {
    if (begin + kCacheRows * loaded < stop)
      load_unit(p, s, place.kv_head, begin + kCacheRows * loaded, end, stages[loaded]);
    end_copies();
  }
  load_queries(p, place, own);
  AttendSums<Dims, Tiles> sums, whole;
  sums.clear();
  if (Walks) whole.clear();
  Level level, whole_level;
  level.clear(), whole_level.clear();
  const int row = (int)threadIdx.x / 4, part = (int)threadIdx.x % 4;
  Seen seen = {0, 0};
  if (row < 16 * Tiles && place.first + row <= place.last)
    seen = seen_by(p, s, (place.first + row) / place.group);
  int now = 0, next = ahead;  // stages: of this unit, and of the one that is being loaded
  FT_LOOP for (int at = begin; at < stop; at += kCacheRows) {
    if (ahead > 0) wait_for_unit(p.stages);
    sync_block();
    if (at + kCacheRows * ahead < stop)
      load_unit(p, s, place.kv_head, at + kCacheRows * ahead, end, stages[next]);
    end_copies();
    if (ahead == 0) {
      copies_left<0>();
      sync_block();
    }
    score_unit(stages[now], own);
    sync_block();
    if (row < 16 * Tiles) weigh_unit(seen, at, row, part, level, own);
    sync_block();
    add_values(stages[now], own, sums);
    if (++now == p.stages) now = 0;
    if (++next == p.stages) next = 0;
    if (at + kCacheRows < stop && at + kCacheRows < first_of_split(split + 1)) continue;
    if (!Walks) return store_split(p, place, split, level, sums);
    add_split(whole_level, level, own, whole, sums);
    sums.clear();
    level.clear();
    split++;
  }
  if (!Walks) return;
  if (p.sinks != nullptr) {  // after all positions, as in attend_combine
    level.top = p.sinks[place.head(min_(place.first + row, place.last))], level.mass = 1;
    add_split(whole_level, level, own, whole, sums);
  }
  store_whole(p, place, whole_level, own, whole);
}

}  // namespace ft::cuda

#define FT_ATTEND(name, Dims, Tiles, Walks) \
  FT_KERNEL(name, AttendArgs, 256) {        \
    FT_DYNAMIC(memory);                     \
    release_next();                         \
    attend<Dims, Tiles, Walks>(p, memory);  \
  }

namespace ft::cuda {

FT_ATTEND(attend_64_1, 64, 1, false)
FT_ATTEND(attend_64_4, 64, 4, false)
FT_ATTEND(attend_64_all, 64, 4, true)
FT_ATTEND(attend_128_1, 128, 1, false)
FT_ATTEND(attend_128_4, 128, 4, false)
FT_ATTEND(attend_128_all, 128, 4, true)
FT_ATTEND(attend_256_1, 256, 1, false)
FT_ATTEND(attend_256_2, 256, 2, false)
FT_ATTEND(attend_256_4, 256, 4, false)
FT_ATTEND(attend_256_all, 256, 4, true)
FT_ATTEND(attend_512_1, 512, 1, false)
FT_ATTEND(attend_512_all, 512, 1, true)

FT_KERNEL(attend_combine_2, AttendArgs, 128) {
  release_next();
  attend_combine<2>(p);
}
FT_KERNEL(attend_combine_8, AttendArgs, 128) {
  release_next();
  attend_combine<8>(p);
}
FT_KERNEL(attend_combine_16, AttendArgs, 128) {
  release_next();
  attend_combine<16>(p);
}

}  // namespace ft::cuda
