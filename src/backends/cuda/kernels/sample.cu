// The ends of a step: its table from the host, hidden rows in and out by place, and the tokens of its logits.
// Sampling gives the tokens of ft::sample (sampling/sample.h), bit for bit: the same IEEE operations of
// double in the same order, integer masses, ties to the lower token.
#include "backends/cuda/kernels/sample.cuh"

namespace ft::cuda {

// One block. The next launch begins when it has ended, so the table may be read before wait_for_rows().
FT_KERNEL(fetch, FetchArgs, 256) {
  FT_SHARED int turn;
  wait_for_rows();
  if (threadIdx.x == 0) turn = *p.turn;
  sync_block();
  const uint4* from = (const uint4*)(p.ring + (long long)turn * p.turn_bytes);
  for (int i = (int)threadIdx.x; i < p.bytes / 16; i += 256) ((uint4*)p.table)[i] = from[i];
  if (threadIdx.x == 0) *p.turn = (turn + 1) % p.turns;
}

// x: 256 columns; y: row.
FT_KERNEL(gather_rows, GatherArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  if (i >= p.out.width) return;
  p.out.data[(long long)row * p.out.stride + i] =
      p.store[(long long)p.step.hidden_places[row] * p.store_width + i];
}

FT_KERNEL(capture_rows, CaptureArgs, 256) {
  begin_kernel();
  const int i = (int)blockIdx.x * 256 + (int)threadIdx.x, row = (int)blockIdx.y;
  const int place = p.step.capture_places[row];
  if (i >= p.in.width || place < 0) return;
  p.store[(long long)place * p.in.width + i] = p.in.data[(long long)row * p.in.stride + i];
}

/// The column after the block's last.
FT_DEVICE int end_of_part(const View& logits) {
  return min_(((int)blockIdx.x + 1) * kSampleColumns, logits.width);
}

// ---- penalties, bias, mask ----

/// The first of columns [first, end) whose token is `token` or more; `end`: none.
FT_DEVICE int column_from(const int* ids, int first, int end, int token) {
  if (ids == nullptr) return token < first ? first : min_(token, end);
  while (first < end) {
    const int middle = (first + end) / 2;
    if (ids[middle] < token)
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

/// The first of `count` entries, ascending by token, with `token` or more.
template <class Entry>
FT_DEVICE int entry_from(const Entry* entries, int count, int token) {
  int first = 0;
  while (first < count) {
    const int middle = (first + count) / 2;
    if (entries[middle].token < token)
      first = middle + 1;
    else
      count = middle;
  }
  return first;
}

FT_DEVICE bool allows(const AdjustPlace& a, const unsigned int* words, int token) {
  return token / 32 < a.words && (words[a.first_word + token / 32] >> (token % 32) & 1) != 0;
}

/// Draft `i` of those that count as emitted before the row.
FT_DEVICE int draft_at(const StepTable& step, const AdjustPlace& a, int row, int i) {
  if (a.first_draft >= 0) return step.round[a.first_draft + i];
  const int token = step.tokens[step.logit_rows[row] + 1 - a.drafts + i];
  return token < 0 ? step.round[-1 - token] : token;
}

FT_DEVICE void penalise(float& value, const AdjustPlace& a, int output) {
  value = value > 0 ? value / a.repetition : value * a.repetition;
  if (output > 0) value = value - a.frequency * (float)output - a.presence;
}

/// Each token that was seen and has a column in [first, end): the history's, then drafts that are not among
/// them.
FT_DEVICE void penalise_part(const AdjustArgs& p, const AdjustPlace& a, int row, float* logits, int first,
                             int end) {
  const int lowest = token_at(p.ids, first), highest = token_at(p.ids, end - 1);
  const SeenToken* seen = p.seen + a.first_seen;
  for (int i = entry_from(seen, a.seen, lowest) + (int)threadIdx.x; i < a.seen; i += kSampleThreads) {
    const int token = seen[i].token;
    if (token > highest) break;
    const int column = column_from(p.ids, first, end, token);
    if (token_at(p.ids, column) != token) continue;
    int output = seen[i].output;
    for (int j = 0; j < a.drafts; j++) output += draft_at(p.step, a, row, j) == token;
    penalise(logits[column], a, output);
  }
  for (int i = (int)threadIdx.x; i < a.drafts; i += kSampleThreads) {
    const int token = draft_at(p.step, a, row, i);
    if (token < lowest || token > highest) continue;
    const int entry = entry_from(seen, a.seen, token), column = column_from(p.ids, first, end, token);
    if ((entry < a.seen && seen[entry].token == token) || token_at(p.ids, column) != token) continue;
    int output = 0, before = 0;
    for (int j = 0; j < a.drafts; j++) {
      const bool same = draft_at(p.step, a, row, j) == token;
      output += same, before += same && j < i;
    }
    if (before == 0) penalise(logits[column], a, output);
  }
}

// x: part of the columns; y: logit row.
FT_KERNEL(adjust_logits, AdjustArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.y, first = (int)blockIdx.x * kSampleColumns, end = end_of_part(p.logits);
  const AdjustPlace a = p.rows[row];
  float* logits = p.logits.data + (long long)row * p.logits.stride;
  if (a.penalised) {
    penalise_part(p, a, row, logits, first, end);
    sync_block();
  }
  const int highest = token_at(p.ids, end - 1);
  const BiasedToken* biased = p.biased + a.first_biased;
  for (int i = entry_from(biased, a.biased, token_at(p.ids, first)) + (int)threadIdx.x; i < a.biased;
       i += kSampleThreads) {
    if (biased[i].token > highest) break;
    const int column = column_from(p.ids, first, end, biased[i].token);
    if (token_at(p.ids, column) == biased[i].token) logits[column] += biased[i].bias;
  }
  if (a.words == 0) return;
  sync_block();
  for (int i = first + (int)threadIdx.x; i < end; i += kSampleThreads) {
    if (!allows(a, p.words, token_at(p.ids, i))) logits[i] = negative_infinity();
  }
}

// ---- tokens ----

// x: part of the columns; y: logit row.
FT_KERNEL(sample_tops, SampleArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.y, first = (int)blockIdx.x * kSampleColumns;
  const float* logits = p.logits.data + (long long)row * p.logits.stride;
  Offer best = {never(), kNoToken};
  for (int i = first + (int)threadIdx.x; i < end_of_part(p.logits); i += kSampleThreads)
    best.take((double)seen_logit(logits[i]), i);
  best = best_of_block(best);
  if (threadIdx.x == 0) {
    p.tops[row * p.parts + (int)blockIdx.x] = (float)best.score;
    p.top_places[row * p.parts + (int)blockIdx.x] = best.token;
  }
  if (blockIdx.x != 0) return;
  for (int i = (int)threadIdx.x; i < kSampleBins; i += kSampleThreads) p.bins[row * kSampleBins + i] = 0;
  if (threadIdx.x == 0) p.counts[row] = 0;
}

/// Whether the row is sampled by one of the kernels for noise.
FT_DEVICE bool draws(const SampleArgs& p, int row, const Offer& highest) {
  return p.step.samples[row].temperature > 0 && highest.score > never();
}
FT_DEVICE bool filters(const SampleArgs& p, int row) {
  const SamplePlace& s = p.step.samples[row];
  return (s.top_k > 0 && s.top_k < p.logits.width) || s.top_p < 1 || s.min_p > 0;
}

/// The first column that the row's mask allows; 0 where it allows none, or there is no mask.
FT_DEVICE int first_allowed(const SampleArgs& p, int row) {
  if (p.adjusted == nullptr || p.adjusted[row].words == 0) return 0;
  Offer first = {never(), kNoToken};
  for (int i = (int)threadIdx.x; i < p.logits.width; i += kSampleThreads) {
    if (allows(p.adjusted[row], p.words, token_at(p.ids, i))) first.take(0, i);
  }
  first = best_of_block(first);
  return first.token == kNoToken ? 0 : first.token;
}

// One block a row: greedy ones, and those without a finite logit, whose first allowed column is taken.
FT_KERNEL(sample_greedy, SampleArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.x;
  const Offer highest = highest_of(p, row);
  if (draws(p, row, highest)) return;
  const int column = highest.score > never() ? highest.token : first_allowed(p, row);
  if (threadIdx.x == 0) store_token(p, row, token_at(p.ids, column));
}

// Noise for all columns. x: part of the columns; y: logit row.
FT_KERNEL(sample_draws, SampleArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.y, first = (int)blockIdx.x * kSampleColumns;
  const Offer highest = highest_of(p, row);
  if (!draws(p, row, highest) || filters(p, row)) return;
  const SamplePlace s = p.step.samples[row];
  const float* logits = p.logits.data + (long long)row * p.logits.stride;
  Offer best = {never(), kNoToken};
  for (int i = first + (int)threadIdx.x; i < end_of_part(p.logits); i += kSampleThreads) {
    const float value = seen_logit(logits[i]);
    if (!(value > negative_infinity())) continue;
    const double own = tempered(value, (float)highest.score, s.temperature);
    if (best.score - own > 36.75) continue;  // more than any noise
    const int token = token_at(p.ids, i);
    best.take(own + gumbel(s, token), token);
  }
  best = best_of_block(best);
  if (threadIdx.x != 0) return;
  p.scores[row * p.parts + (int)blockIdx.x] = best.score;
  p.score_tokens[row * p.parts + (int)blockIdx.x] = best.token;
}

// One block a row.
FT_KERNEL(sample_best, SampleArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.x;
  const Offer highest = highest_of(p, row);
  if (!draws(p, row, highest) || filters(p, row)) return;
  Offer best = {never(), kNoToken};
  for (int i = (int)threadIdx.x; i < p.parts; i += kSampleThreads)
    best.take(p.scores[row * p.parts + i], p.score_tokens[row * p.parts + i]);
  best = best_of_block(best);
  if (threadIdx.x == 0) store_token(p, row, best.token);
}

/// Greater floats have greater bins.
FT_DEVICE int bin_of(float value) {
  const u32 bits = bits_of(value);
  return (int)((bits & 0x80000000u ? ~bits : bits | 0x80000000u) >> 20);
}

// x: part of the columns; y: logit row.
FT_KERNEL(sample_bins, SampleArgs, 256) {
  FT_SHARED int bins[kSampleBins];
  begin_kernel();
  const int row = (int)blockIdx.y, first = (int)blockIdx.x * kSampleColumns;
  if (!filters(p, row) || !(p.step.samples[row].temperature > 0)) return;
  for (int i = (int)threadIdx.x; i < kSampleBins; i += kSampleThreads) bins[i] = 0;
  sync_block();
  const float* logits = p.logits.data + (long long)row * p.logits.stride;
  for (int i = first + (int)threadIdx.x; i < end_of_part(p.logits); i += kSampleThreads) {
    const float value = seen_logit(logits[i]);
    if (value > negative_infinity()) atomic_add(&bins[bin_of(value)], 1);
  }
  sync_block();
  for (int i = (int)threadIdx.x; i < kSampleBins; i += kSampleThreads) {
    if (bins[i] > 0) atomic_add(&p.bins[row * kSampleBins + i], bins[i]);
  }
}

/// The lowest bin such that it and those above it hold `wanted` logits; 0 if all hold fewer.
FT_DEVICE int lowest_bin(const int* bins, int wanted) {
  FT_SHARED int sums[kSampleThreads];
  FT_SHARED int lowest;
  constexpr int kOwn = kSampleBins / kSampleThreads;
  const int top = kSampleBins - 1 - (int)threadIdx.x * kOwn;  // thread 0 has the highest ones
  int own = 0;
  for (int i = 0; i < kOwn; i++) own += bins[top - i];
  sums[threadIdx.x] = own;
  if (threadIdx.x == 0) lowest = 0;
  sync_block();
  int above = 0;
  for (int i = 0; i < (int)threadIdx.x; i++) above += sums[i];
  if (above < wanted && above + own >= wanted) {
    int bin = top;
    for (int sum = above + bins[bin]; sum < wanted; sum += bins[bin]) bin--;
    lowest = bin;
  }
  sync_block();
  return lowest;
}

// The logits of the upper bins, in any order. x: part of the columns; y: logit row.
FT_KERNEL(sample_candidates, SampleArgs, 256) {
  begin_kernel();
  const int row = (int)blockIdx.y, first = (int)blockIdx.x * kSampleColumns;
  if (!filters(p, row) || !(p.step.samples[row].temperature > 0)) return;
  const int lowest = lowest_bin(p.bins + row * kSampleBins, p.step.samples[row].top_k);
  const float* logits = p.logits.data + (long long)row * p.logits.stride;
  for (int i = first + (int)threadIdx.x; i < end_of_part(p.logits); i += kSampleThreads) {
    const float value = seen_logit(logits[i]);
    if (!(value > negative_infinity()) || bin_of(value) < lowest) continue;
    const int at = atomic_add(&p.counts[row], 1);
    if (at >= kMaxCandidates) continue;
    p.values[row * kMaxCandidates + at] = value;
    p.tokens[row * kMaxCandidates + at] = token_at(p.ids, i);
  }
}

/// The candidates of top-k in order, where too many logits are alike for the list: one by one.
FT_DEVICE int search_top(const SampleArgs& p, int row, int wanted, float* values, int* tokens) {
  const float* logits = p.logits.data + (long long)row * p.logits.stride;
  double limit = -never();
  int limit_token = -1;
  for (int n = 0; n < wanted; n++) {
    Offer best = {never(), kNoToken};
    for (int i = (int)threadIdx.x; i < p.logits.width; i += kSampleThreads) {
      const double value = (double)seen_logit(logits[i]);
      const int token = token_at(p.ids, i);
      if (value < limit || (value == limit && token > limit_token)) best.take(value, token);
    }
    best = best_of_block(best);
    if (!(best.score > never())) return n;
    limit = best.score, limit_token = best.token;
    if (threadIdx.x == 0) values[n] = (float)best.score, tokens[n] = best.token;
  }
  return wanted;
}

/// The candidates of top-k in order: greater values first, then lower tokens.
FT_DEVICE int rank_top(const SampleArgs& p, int row, int count, int wanted, float* values, int* tokens) {
  const float* all = p.values + row * kMaxCandidates;
  const int* ids = p.tokens + row * kMaxCandidates;
  for (int i = (int)threadIdx.x; i < count; i += kSampleThreads) {
    int rank = 0;
    for (int j = 0; j < count; j++) rank += all[j] > all[i] || (all[j] == all[i] && ids[j] < ids[i]);
    if (rank < wanted) values[rank] = all[i], tokens[rank] = ids[i];
  }
  return min_(count, wanted);
}

// top-k of at most 256, then top-p, min-p and noise. One block a row.
FT_KERNEL(sample_filtered, SampleArgs, 256) {
  FT_SHARED float values[kMaxTopK];
  FT_SHARED int tokens[kMaxTopK];
  FT_SHARED double weights[kMaxTopK];
  FT_SHARED int kept;
  begin_kernel();
  const int row = (int)blockIdx.x;
  const Offer highest = highest_of(p, row);
  if (!draws(p, row, highest) || !filters(p, row)) return;
  const SamplePlace s = p.step.samples[row];
  const int count = p.counts[row];
  const int top = count > kMaxCandidates ? search_top(p, row, s.top_k, values, tokens)
                                         : rank_top(p, row, count, s.top_k, values, tokens);
  sync_block();
  const int own = (int)threadIdx.x;
  if (own < top) weights[own] = exp_of_negative(tempered(values[own], (float)highest.score, s.temperature));
  sync_block();
  if (own == 0) kept = s.top_p < 1 ? keep_mass(weights, top, s.top_p) : top;
  sync_block();
  const double least = (double)s.min_p < 1.0 ? (double)s.min_p : 1.0;
  Offer best = {never(), kNoToken};
  if (own < kept && !(least > 0 && weights[own] < least))
    best.take(tempered(values[own], (float)highest.score, s.temperature) + gumbel(s, tokens[own]),
              tokens[own]);
  best = best_of_block(best);
  if (own == 0) store_token(p, row, best.token);
}

}  // namespace ft::cuda
