// Attention over the timeline's cache. A query's arithmetic depends on its own position alone: units of 32
// positions with a running maximum, splits of units that begin at fixed positions (first_of_split), the
// splits' results added in ascending order. Cache: [block][layer][kv head][keys 32 x head_dim, values 32 x
// head_dim] of float16 (saturated), or of 8-bit codes with 32 float scales of the keys and 32 of the values
// behind them.
#include "backends/cuda/kernels/device.cuh"

namespace ft::cuda {

/// Splits of 128 positions to 4,096, 512 to 16,384, 1,024 to 65,536, then 2,048.
FT_DEVICE int first_of_split(int split) {
  if (split <= 32) return split * 128;
  if (split <= 56) return 4096 + (split - 32) * 512;
  if (split <= 104) return 16384 + (split - 56) * 1024;
  return 65536 + (split - 104) * 2048;
}

FT_DEVICE u8* head_of(const AttendArgs& p, int block, int kv_head) {
  return p.cache + block * p.block_bytes + p.layer_offset + kv_head * p.head_bytes;
}

FT_DEVICE float norm_factor(const AttendArgs& p, const float* in) {
  float sum = 0;
  for (int i = lane_of(); i < p.head_dim; i += 32) sum = fma_(in[i], in[i], sum);
  return 1.0f / sqrt_(warp_sum(sum) / (float)p.head_dim + p.eps);
}

/// Norm and rotation of one head by a warp: element i of lane i % 32; through `scratch` [head_dim].
FT_DEVICE void prepare_head(const AttendArgs& p, const float* in, const float* norm, int row,
                            float* scratch) {
  const float factor = norm == nullptr ? 1.0f : norm_factor(p, in);
  for (int i = lane_of(); i < p.head_dim; i += 32)
    scratch[i] = norm == nullptr ? in[i] : in[i] * factor * norm[i];
  sync_warp();
  for (int j = lane_of(); j < p.half; j += 32) {
    const float c = p.cosines[row * p.half + j], s = p.sines[row * p.half + j];
    const float a = scratch[j], b = scratch[j + p.half];
    scratch[j] = a * c - b * s;
    scratch[j + p.half] = b * c + a * s;
  }
  sync_warp();
}

/// One position's key or value, times `factor`, into the cache; `place` in its block.
FT_DEVICE void store_cached(const AttendArgs& p, const float* from, float factor, u8* elements, float* scale,
                            int place) {
  if (p.kv_bits == 16) {
    u16* to = (u16*)elements + place * p.head_dim;
    for (int i = lane_of(); i < p.head_dim; i += 32) {
      const float value = from[i] * factor;
      to[i] = float_to_half(value > 65504.0f ? 65504.0f : value < -65504.0f ? -65504.0f : value);
    }
    return;
  }
  float top = 0;
  for (int i = lane_of(); i < p.head_dim; i += 32) top = max_(top, magnitude(from[i] * factor));
  top = warp_max(top);
  const float inverse = top > 0 ? 127.0f / top : 0.0f;
  for (int i = lane_of(); i < p.head_dim; i += 32)
    ((i8*)elements)[place * p.head_dim + i] = (i8)max_(-127, min_(127, round_(from[i] * factor * inverse)));
  if (lane_of() == 0) scale[place] = top / 127.0f;
}

// x: items of a row, four a block; y: row; z: segment (rows of others return).
FT_KERNEL(attend_prepare, AttendArgs, 128) {
  FT_SHARED float scratch[4][kMaxHeadDim];
  begin_kernel();
  const int item = (int)blockIdx.x * 4 + warp_of(), row = (int)blockIdx.y;
  if (item >= p.heads + (p.shared ? 0 : p.kv_heads)) return;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  if (row < s.first_row || row >= s.first_row + s.rows) return;
  float* own = scratch[warp_of()];
  if (item < p.heads) {
    const int stride = p.gated ? 2 * p.head_dim : p.head_dim;
    prepare_head(p, p.q.data + (long long)row * p.q.stride + item * stride, p.q_norm, row, own);
    float* to = p.queries + ((long long)row * p.heads + item) * p.head_dim;
    for (int i = lane_of(); i < p.head_dim; i += 32) to[i] = own[i] * p.scale;
    return;
  }
  const int head = item - p.heads, position = s.position + row - s.first_row;
  u8* keys = head_of(p, p.step.blocks[s.first_block + position / kCacheRows], head);
  u8* values = keys + kCacheRows * p.head_dim * (p.kv_bits / 8);
  float* scales = (float*)(values + kCacheRows * p.head_dim * (p.kv_bits / 8));
  prepare_head(p, p.k.data + (long long)row * p.k.stride + head * p.head_dim, p.k_norm, row, own);
  store_cached(p, own, 1.0f, keys, scales, position % kCacheRows);
  const float* v = p.v.data + (long long)row * p.v.stride + head * p.head_dim;
  store_cached(p, v, p.v_norm ? norm_factor(p, v) : 1.0f, values, scales + kCacheRows, position % kCacheRows);
}

constexpr int kAttendThreads = 256, kAttendWarps = 8;

/// A softmax that is not yet divided by its mass: lane has the dims 64 j + 2 lane, + 1.
template <int Dims>
struct Running {
  float top, mass, sum[Dims];
  FT_DEVICE_MEMBER void clear() {
    top = float_of(0xff800000u);
    mass = 0;
    FT_UNROLL for (int i = 0; i < Dims; i++) sum[i] = 0;
  }
  /// Adds what follows in order of positions.
  FT_DEVICE_MEMBER void add(const Running& next) {
    const float most = max_(top, next.top), old = exp_(top - most), fresh = exp_(next.top - most);
    mass = mass * old + next.mass * fresh;
    FT_UNROLL for (int i = 0; i < Dims; i++) sum[i] = sum[i] * old + next.sum[i] * fresh;
    top = most;
  }
};

/// The tile of one block's keys and values in shared memory, as float16; codes of 8 bits are exact in it. A
/// warp has `Queries` queries of the block.
template <int Dims, int Queries>
struct Tile {
  u16 keys[kCacheRows][32 * Dims + 8];  // 16 bytes more: eight lanes that read eight rows meet no bank twice
  u16 values[kCacheRows][32 * Dims];
  float scales[2][kCacheRows];
  float queries[kAttendWarps * Queries][32 * Dims];
};

template <int Dims, int Queries>
FT_DEVICE void load_tile(const AttendArgs& p, const u8* head, Tile<Dims, Queries>& tile) {
  const int bytes = p.kv_bits / 8;
  const u8* values = head + kCacheRows * p.head_dim * bytes;
  if (p.kv_bits == 16 && p.head_dim % 8 == 0) {
    for (int i = (int)threadIdx.x; i < kCacheRows * p.head_dim / 8; i += kAttendThreads) {
      const int row = 8 * i / p.head_dim, at = 8 * i % p.head_dim;
      *(uint4*)&tile.keys[row][at] = ((const uint4*)head)[i];
      *(uint4*)&tile.values[row][at] = ((const uint4*)values)[i];
    }
    return;
  }
  for (int i = (int)threadIdx.x; i < kCacheRows * p.head_dim; i += kAttendThreads) {
    const int row = i / p.head_dim, at = i % p.head_dim;
    tile.keys[row][at] = p.kv_bits == 16 ? ((const u16*)head)[i] : float_to_half((float)((const i8*)head)[i]);
    tile.values[row][at] =
        p.kv_bits == 16 ? ((const u16*)values)[i] : float_to_half((float)((const i8*)values)[i]);
  }
  if (p.kv_bits == 8 && threadIdx.x < 2 * kCacheRows) {
    const float* scales = (const float*)(values + kCacheRows * p.head_dim);
    tile.scales[threadIdx.x / kCacheRows][threadIdx.x % kCacheRows] = scales[threadIdx.x];
  }
}

/// The positions that a row of the segment sees.
struct Seen {
  int first, end;
};
FT_DEVICE Seen seen_by(const AttendArgs& p, const SegmentPlace& s, int row) {
  if (!p.causal) return {0, s.position + s.rows};
  const int end = s.position + row + 1;
  return {p.window > 0 ? max_(0, end - p.window) : 0, end};
}

/// What each query of a warp sees of a unit: [first, end); nothing where end <= first.
template <int Queries>
struct Views {
  int first[Queries], end[Queries];
  FT_DEVICE_MEMBER bool live(int q) const { return end[q] > first[q]; }
};

/// Scores of the unit's positions, one a lane: four chains of every fourth dim. Dims beyond head_dim are
/// zeros of the query and of the keys. The keys are read once for all queries of the warp.
template <int Dims, int Queries>
FT_DEVICE void scores_of(const AttendArgs& p, const Tile<Dims, Queries>& tile, const Views<Queries>& views,
                         float (&score)[Queries]) {
  const u16* key = tile.keys[lane_of()];
  float sums[Queries][4];
  FT_UNROLL for (int q = 0; q < Queries; q++) FT_UNROLL for (int i = 0; i < 4; i++) sums[q][i] = 0;
  for (int d = 0; d < p.head_dim; d += 8) {
    const uint4 k = *(const uint4*)(key + d);
    const u32 words[4] = {k.x, k.y, k.z, k.w};
    float of[8];
    FT_UNROLL for (int i = 0; i < 8; i++) of[i] = half_to_float((u16)(words[i / 2] >> (i % 2 * 16) & 0xffff));
    FT_UNROLL for (int q = 0; q < Queries; q++) {
      if (!views.live(q)) continue;
      const float* query = tile.queries[warp_of() + kAttendWarps * q] + d;
      const float4 a = *(const float4*)query, b = *(const float4*)(query + 4);
      sums[q][0] = fma_(b.x, of[4], fma_(a.x, of[0], sums[q][0]));
      sums[q][1] = fma_(b.y, of[5], fma_(a.y, of[1], sums[q][1]));
      sums[q][2] = fma_(b.z, of[6], fma_(a.z, of[2], sums[q][2]));
      sums[q][3] = fma_(b.w, of[7], fma_(a.w, of[3], sums[q][3]));
    }
  }
  FT_UNROLL for (int q = 0; q < Queries; q++) score[q] =
      (sums[q][0] + sums[q][1]) + (sums[q][2] + sums[q][3]);
}

/// One unit of 32 positions for the queries of a warp; their values are read once for all of them.
template <int Dims, int Queries>
FT_DEVICE void add_unit(const AttendArgs& p, const Tile<Dims, Queries>& tile, const Views<Queries>& views,
                        Running<Dims> (&to)[Queries]) {
  float weight[Queries];
  scores_of(p, tile, views, weight);
  int first = kCacheRows, end = 0;
  FT_UNROLL for (int q = 0; q < Queries; q++) {
    if (!views.live(q)) continue;
    first = min_(first, views.first[q]), end = max_(end, views.end[q]);
    float score = weight[q];
    if (p.kv_bits == 8) score = score * tile.scales[0][lane_of()];
    if (lane_of() >= views.end[q] || lane_of() < views.first[q]) score = float_of(0xff800000u);
    const float most = max_(to[q].top, warp_max(score)), old = exp_(to[q].top - most);
    weight[q] = exp_(score - most);
    to[q].mass = to[q].mass * old + warp_sum(weight[q]);
    to[q].top = most;
    if (p.kv_bits == 8) weight[q] = weight[q] * tile.scales[1][lane_of()];
    FT_UNROLL for (int i = 0; i < Dims; i++) to[q].sum[i] = to[q].sum[i] * old;
  }
  for (int j = first; j < end; j++) {
    float w[Queries];
    FT_UNROLL for (int q = 0; q < Queries; q++) w[q] = shuffle(weight[q], j);
    FT_UNROLL for (int i = 0; i < Dims; i += 2) {
      const u32 pair = *(const u32*)&tile.values[j][i * 32 + 2 * lane_of()];
      const float low = half_to_float((u16)(pair & 0xffff)), high = half_to_float((u16)(pair >> 16));
      FT_UNROLL for (int q = 0; q < Queries; q++) {
        if (j < views.first[q] || j >= views.end[q]) continue;
        to[q].sum[i] = fma_(w[q], low, to[q].sum[i]);
        to[q].sum[i + 1] = fma_(w[q], high, to[q].sum[i + 1]);
      }
    }
  }
}

template <int Dims>
FT_DEVICE void store_result(const AttendArgs& p, int row, int head, const Running<Dims>& result) {
  float* out = p.out.data + (long long)row * p.out.stride + head * p.head_dim;
  const float* gate = p.q.data + (long long)row * p.q.stride + (2 * head + 1) * p.head_dim;
  FT_UNROLL for (int i = 0; i < Dims; i++) {
    const int d = i / 2 * 64 + 2 * lane_of() + i % 2;
    if (d >= p.head_dim) continue;
    const float value = result.sum[i] / result.mass;
    out[d] = p.gated ? value * sigmoid(gate[d]) : value;
  }
}

// x: (tile of queries, kv head); y: split, or one block for all; z: segment. Query i of a kv head: row i /
// group of the segment, head i % group of the kv head's group. A warp has the queries first + warp + 8 i.
template <int Dims, int Queries>
FT_DEVICE void attend(const AttendArgs& p, Tile<Dims, Queries>& tile) {
  constexpr int kTile = kAttendWarps * Queries;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  const int group = p.heads / p.kv_heads, count = s.rows * group;
  const int kv_head = (int)blockIdx.x % p.kv_heads, first = (int)blockIdx.x / p.kv_heads * kTile;
  if (first >= count) return;
  const int last = min_(first + kTile, count) - 1;
  const int lowest = seen_by(p, s, first / group).first, end = seen_by(p, s, last / group).end;
  int split = p.splits > 0 ? (int)blockIdx.y : 0;
  if (first_of_split(split) >= end || (p.splits > 0 && first_of_split(split + 1) <= lowest)) return;
  wait_for_rows();
  for (int i = (int)threadIdx.x; i < kTile * 32 * Dims; i += kAttendThreads) {
    const int query = first + i / (32 * Dims), d = i % (32 * Dims);
    const int row = s.first_row + query / group, head = kv_head * group + query % group;
    tile.queries[i / (32 * Dims)][d] = query <= last && d < p.head_dim
                                           ? p.queries[((long long)row * p.heads + head) * p.head_dim + d]
                                           : 0.0f;
  }
  for (int i = (int)threadIdx.x; i < kCacheRows * (32 * Dims - p.head_dim); i += kAttendThreads) {
    const int row = i / (32 * Dims - p.head_dim), at = p.head_dim + i % (32 * Dims - p.head_dim);
    tile.keys[row][at] = tile.values[row][at] = 0;
  }
  Running<Dims> whole[Queries], part[Queries];
  FT_UNROLL for (int i = 0; i < Queries; i++) whole[i].clear();
  const int stop = p.splits > 0 ? split + 1 : 1 << 20;
  for (; split < stop && first_of_split(split) < end; split++) {
    if (first_of_split(split + 1) <= lowest) continue;
    FT_UNROLL for (int i = 0; i < Queries; i++) part[i].clear();
    const int begin = first_of_split(split), limit = min_(first_of_split(split + 1), end);
    for (int at = max_(begin, lowest / kCacheRows * kCacheRows); at < limit; at += kCacheRows) {
      sync_block();
      load_tile(p, head_of(p, p.step.blocks[s.first_block + at / kCacheRows], kv_head), tile);
      sync_block();
      Views<Queries> views;
      bool any = false;
      FT_UNROLL for (int i = 0; i < Queries; i++) {
        const int query = first + warp_of() + kAttendWarps * i;
        const Seen seen = seen_by(p, s, query / group);
        views.first[i] = max_(0, seen.first - at);
        views.end[i] = query <= last ? min_(seen.end - at, kCacheRows) : 0;
        any = any || views.live(i);
      }
      if (any) add_unit(p, tile, views, part);
    }
    FT_UNROLL for (int i = 0; i < Queries; i++) {
      const int query = first + warp_of() + kAttendWarps * i;
      const Seen seen = seen_by(p, s, query / group);
      if (query > last || seen.end <= begin || seen.first >= first_of_split(split + 1)) continue;
      const int row = s.first_row + query / group, head = kv_head * group + query % group;
      if (p.splits == 0) {
        whole[i].add(part[i]);
        continue;
      }
      float* to =
          p.partials + (((long long)row * p.heads + head) * p.splits + split) * (p.head_dim + kPartialExtra);
      FT_UNROLL for (int j = 0; j < Dims; j++) {
        const int d = j / 2 * 64 + 2 * lane_of() + j % 2;
        if (d < p.head_dim) to[d] = part[i].sum[j];
      }
      if (lane_of() == 0) to[p.head_dim] = part[i].top, to[p.head_dim + 1] = part[i].mass;
    }
  }
  if (p.splits > 0) return;
  FT_UNROLL for (int i = 0; i < Queries; i++) {
    const int query = first + warp_of() + kAttendWarps * i;
    if (query <= last)
      store_result(p, s.first_row + query / group, kv_head * group + query % group, whole[i]);
  }
}

// One warp a head of a row, four a block; y: row; z: segment.
template <int Dims>
FT_DEVICE void attend_combine(const AttendArgs& p) {
  const int head = (int)blockIdx.x * 4 + warp_of(), row = (int)blockIdx.y;
  const SegmentPlace s = p.step.segments[blockIdx.z];
  if (head >= p.heads || row < s.first_row || row >= s.first_row + s.rows) return;
  const Seen seen = seen_by(p, s, row - s.first_row);
  Running<Dims> whole, part;
  whole.clear();
  for (int split = 0; split < p.splits && first_of_split(split) < seen.end; split++) {
    if (first_of_split(split + 1) <= seen.first) continue;
    const float* from =
        p.partials + (((long long)row * p.heads + head) * p.splits + split) * (p.head_dim + kPartialExtra);
    FT_UNROLL for (int j = 0; j < Dims; j++) {
      const int d = j / 2 * 64 + 2 * lane_of() + j % 2;
      part.sum[j] = d < p.head_dim ? from[d] : 0.0f;
    }
    part.top = from[p.head_dim], part.mass = from[p.head_dim + 1];
    whole.add(part);
  }
  store_result(p, row, head, whole);
}

}  // namespace ft::cuda

#define FT_ATTEND(name, Dims, Queries)                \
  FT_KERNEL(name, AttendArgs, 256) {                  \
    FT_DYNAMIC(memory);                               \
    release_next();                                   \
    attend(p, *(Tile<Dims, Queries>*)memory);         \
  }

namespace ft::cuda {

FT_ATTEND(attend_2, 2, 2)
FT_ATTEND(attend_8, 8, 2)
FT_ATTEND(attend_16, 16, 2)
// For steps of many rows.
FT_ATTEND(attend_prompt_2, 2, 4)
FT_ATTEND(attend_prompt_8, 8, 4)

FT_KERNEL(attend_combine_2, AttendArgs, 128) {
  begin_kernel();
  attend_combine<2>(p);
}
FT_KERNEL(attend_combine_8, AttendArgs, 128) {
  begin_kernel();
  attend_combine<8>(p);
}
FT_KERNEL(attend_combine_16, AttendArgs, 128) {
  begin_kernel();
  attend_combine<16>(p);
}

}  // namespace ft::cuda
