// The kernels that only drafters use: convolutions inside a block, logits by cluster, the walk over
// candidates. A walk samples as kernels/sample.cu does, among the few scores of its candidates.
#include "backends/cuda/kernels/draft_arguments.cuh"
#include "backends/cuda/kernels/layout.cuh"
#include "backends/cuda/kernels/sample.cuh"

namespace ft::cuda {

// x: 256 channels; y: row of the segment; z: segment.
FT_KERNEL(local_conv, LocalConvArgs, 256) {
  begin_kernel();
  const SegmentPlace& s = p.step.segments[blockIdx.z];
  const int c = (int)blockIdx.x * 256 + (int)threadIdx.x, j = (int)blockIdx.y, row = s.first_row + j;
  if (c >= p.in.width || j >= s.rows) return;
  const float* coefficients = p.coefficients.data + (long long)row * p.coefficients.stride;
  float sum = 0;
  for (int tap = 0; tap < min_(p.taps, j + 1); tap++) {
    const int of_side = p.side * p.taps + tap;
    const float kernel =
        p.base[(long long)of_side * p.in.width + c] + coefficients[of_side * p.groups + c / p.group_size];
    sum += kernel * p.in.data[(long long)(row - tap) * p.in.stride + c];
  }
  p.out.data[(long long)row * p.out.stride + c] = sum;
}

/// Element `i` of a row of a table, as embed reads it.
FT_DEVICE float table_value(const TablePlace& t, int row, int i) {
  if (t.records != nullptr) {
    const u8* record = t.records + record_at(row / kTileOutputs, i / t.group, t.groups) *
                                       record_bytes(t.bits, t.group, t.scale_type);
    float scale = 0, bias = 0;
    scale_of(record, record_codes(t.bits, t.group), t.scale_type, row % kTileOutputs, scale, bias);
    return (float)code_of(record, t.bits, t.group, row % kTileOutputs, i % t.group) * scale + bias;
  }
  const long long at = (long long)row * t.stride + i;
  return t.wide ? ((const float*)t.plain)[at] : float_of((u32)((const u16*)t.plain)[at] << 16);
}

FT_DEVICE float sum_of_warp(float own) {
  for (int distance = 16; distance > 0; distance >>= 1) own += shuffle_xor(own, distance);
  return own;
}

// ---- logits by cluster ----

// x: 256 columns; y: logit row.
FT_KERNEL(cluster_fill, ClusterArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x;
  if (i < p.logits.width)
    p.logits.data[(long long)(int)blockIdx.y * p.logits.stride + i] = negative_infinity();
}

// One warp a token. x: 8 of the tokens of the chosen clusters; y: logit row.
FT_KERNEL(cluster_logits, ClusterArgs, 256) {
  begin_kernel();
  const int at = (int)blockIdx.x * 8 + warp_of(), w = (int)blockIdx.y, row = p.step.logit_rows[w];
  if (at >= p.chosen * p.size) return;
  const int cluster = (int)p.routes.data[(long long)row * p.routes.stride + at / p.size];
  const int token = p.tokens[cluster * p.size + at % p.size];
  const float* in = p.in.data + (long long)row * p.in.stride;
  float sum = 0;
  for (int i = lane_of(); i < p.in.width; i += 32) sum += in[i] * table_value(p.table, token, i);
  sum = sum_of_warp(sum);
  if (lane_of() != 0) return;
  if (p.softcap > 0) {  // as soft_cap
    const double e = exp_of_negative(-2.0 * (double)magnitude(sum / p.softcap));
    const float level = (float)((1.0 - e) / (1.0 + e));
    sum = p.softcap * (sum < 0 ? -level : level);
  }
  p.logits.data[(long long)w * p.logits.stride + token] = sum;
}

// ---- the walk ----

/// The `wanted` highest of value(i), 0 <= i < count, in order, each with its column(i); ties to the lower
/// column. The column of a value that is negative infinity is -1.
template <class Value, class Column>
FT_DEVICE void top_of(int count, int wanted, const Value& value, const Column& column, float* values,
                      int* columns) {
  double limit = -never();
  int limit_column = -1;
  for (int n = 0; n < wanted; n++) {
    Offer best = {never(), kNoToken};
    for (int i = (int)threadIdx.x; i < count; i += kSampleThreads) {
      const double own = (double)value(i);
      const int at = column(i);
      if (own < limit || (own == limit && at > limit_column)) best.take(own, at);
    }
    best = best_of_block(best);
    const bool found = best.score > never();
    if (found) limit = best.score, limit_column = best.token;
    if (threadIdx.x == 0) values[n] = (float)best.score, columns[n] = found ? best.token : -1;
    if (!found) limit = never(), limit_column = kNoToken;
  }
}

// The highest logits of a part. x: part of the columns; y: logit row.
FT_KERNEL(walk_tops, WalkArgs, 256) {
  begin_kernel();
  const SampleArgs& s = p.sample;
  const int row = (int)blockIdx.y, first = (int)blockIdx.x * kSampleColumns;
  const float* logits = s.logits.data + (long long)row * s.logits.stride;
  const int end = min_(first + kSampleColumns, s.logits.width);
  const long long to = ((long long)row * s.parts + (int)blockIdx.x) * p.candidates;
  top_of(
      end - first, p.candidates,
      [&](int i) {
        return token_at(s.ids, first + i) == p.excluded ? negative_infinity() : seen_logit(logits[first + i]);
      },
      [&](int i) { return first + i; }, p.part_values + to, p.part_columns + to);
}

// The highest logits of a row, out of those of its parts. One block a row.
FT_KERNEL(walk_candidates, WalkArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.x, count = p.sample.parts * p.candidates;
  const float* values = p.part_values + (long long)row * count;
  const int* columns = p.part_columns + (long long)row * count;
  top_of(
      count, p.candidates, [&](int i) { return columns[i] < 0 ? negative_infinity() : values[i]; },
      [&](int i) { return columns[i]; }, p.values + row * p.candidates, p.columns + row * p.candidates);
}

/// The place that the row draws among `count` scores, logits as sampling sees them; the same in each thread.
FT_DEVICE int draw_of(const SamplePlace& s, const float* scores, const int* tokens, int count) {
  FT_SHARED float values[kMaxWalked];
  FT_SHARED int ids[kMaxWalked];
  FT_SHARED double weights[kMaxWalked];
  FT_SHARED int kept;
  const int own = (int)threadIdx.x;
  Offer best = {never(), kNoToken};
  if (own < count) best.take((double)scores[own], tokens[own]);
  best = best_of_block(best);
  if (!(s.temperature > 0) || !(best.score > never())) return best.token;
  if (own < count) {
    int rank = 0;
    for (int j = 0; j < count; j++)
      rank += scores[j] > scores[own] || (scores[j] == scores[own] && tokens[j] < tokens[own]);
    values[rank] = scores[own], ids[rank] = tokens[own];
  }
  const int top = s.top_k > 0 ? min_(count, s.top_k) : count;
  const float highest = (float)best.score;
  sync_block();
  if (own < top) weights[own] = exp_of_negative(tempered(values[own], highest, s.temperature));
  sync_block();
  if (own == 0) kept = s.top_p < 1 ? keep_mass(weights, top, s.top_p) : top;
  sync_block();
  const double least = (double)s.min_p < 1.0 ? (double)s.min_p : 1.0;
  best = {never(), kNoToken};
  if (own < kept && values[own] > negative_infinity() && !(least > 0 && weights[own] < least))
    best.take(tempered(values[own], highest, s.temperature) + gumbel(s, ids[own]), ids[own]);
  return best_of_block(best).token;
}

// One block a segment: its drafts one after the other.
FT_KERNEL(walk, WalkArgs, 256) {
  FT_SHARED float context[kMaxWalkRank];
  FT_SHARED float scores[kMaxWalked];
  FT_SHARED int tokens[kMaxWalked];
  begin_kernel();
  const StepTable& step = p.sample.step;
  const SegmentPlace& s = step.segments[blockIdx.x];
  int before = step.tokens[s.first_row];
  if (before < 0) before = step.round[-1 - before];
  for (int w = 0; w < p.logit_rows; w++) {
    const int row = step.logit_rows[w];
    if (row < s.first_row || row >= s.first_row + s.rows) continue;
    const int* columns = p.columns + w * p.candidates;
    int count = 0;
    while (count < p.candidates && columns[count] >= 0) count++;
    for (int r = (int)threadIdx.x; r < p.rank; r += 256) {
      const float factor =
          p.factors.data == nullptr ? 1.0f : p.factors.data[(long long)row * p.factors.stride + r];
      context[r] = table_value(p.predecessor, before, r) * factor;
    }
    sync_block();
    for (int c = warp_of(); c < count; c += 8) {
      float sum = 0;
      for (int r = lane_of(); r < p.rank; r += 32)
        sum += context[r] * table_value(p.successor, columns[c], r);
      sum = sum_of_warp(sum);
      if (lane_of() != 0) continue;
      scores[c] = seen_logit(p.values[w * p.candidates + c] + sum);
      tokens[c] = token_at(p.sample.ids, columns[c]);
    }
    sync_block();
    before = count > 0 ? draw_of(step.samples[w], scores, tokens, count) : token_at(p.sample.ids, 0);
    if (threadIdx.x == 0) store_token(p.sample, w, before);
    sync_block();
  }
}

}  // namespace ft::cuda
