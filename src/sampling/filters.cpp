#include "sampling/filters.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/assert.h"
#include "sampling/exp_log.h"

namespace ft {
namespace {

/// The column of a token's logit; -1 if it has none. Ask in ascending order of tokens.
class Places {
 public:
  Places(std::size_t count, std::span<const std::int32_t> ids) : count_(count), rest_(ids), ids_(ids) {}

  std::ptrdiff_t find(std::int32_t token) {
    if (ids_.empty()) return token >= 0 && static_cast<std::size_t>(token) < count_ ? token : -1;
    rest_ = rest_.subspan(static_cast<std::size_t>(std::ranges::lower_bound(rest_, token) - rest_.begin()));
    return !rest_.empty() && rest_[0] == token ? rest_.data() - ids_.data() : -1;
  }

 private:
  std::size_t count_;
  std::span<const std::int32_t> rest_;
  std::span<const std::int32_t> ids_;
};

float penalise(float value, const SamplingParams& sampler, std::int32_t output) {
  value = value > 0 ? value / sampler.repetition : value * sampler.repetition;
  if (output > 0) value = value - sampler.frequency * static_cast<float>(output) - sampler.presence;
  return value;
}

/// Merges the history with the drafts of this step, both ascending. Each token comes once, with its output
/// count.
void penalise_seen(const SampleRow& row, std::span<const std::int32_t> drafts, Places places,
                   std::span<float> values) {
  std::span<const TokenCount> history = row.history;
  while (!history.empty() || !drafts.empty()) {
    const bool old = !history.empty() && (drafts.empty() || history[0].token <= drafts[0]);
    const std::int32_t token = old ? history[0].token : drafts[0];
    std::int32_t output = 0;
    if (old) {
      output = history[0].output;
      history = history.subspan(1);
    }
    for (; !drafts.empty() && drafts[0] == token; drafts = drafts.subspan(1)) ++output;
    if (const std::ptrdiff_t at = places.find(token); at >= 0) {
      float& value = values[static_cast<std::size_t>(at)];
      value = penalise(value, *row.sampler, output);
    }
  }
}

void apply_mask(std::span<const std::uint32_t> mask, std::span<const std::int32_t> ids,
                std::span<float> values) {
  if (!ids.empty()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!allowed(mask, ids[i])) values[i] = kNever;
    }
    return;
  }
  for (std::size_t first = 0; first < values.size(); first += 32) {
    const std::uint32_t word = first / 32 < mask.size() ? mask[first / 32] : 0;
    if (word == ~std::uint32_t{0}) continue;
    const std::size_t count = std::min<std::size_t>(32, values.size() - first);
    for (std::size_t bit = 0; bit < count; ++bit) {
      if (((word >> bit) & 1) == 0) values[first + bit] = kNever;
    }
  }
}

/// Greater values first, then lower ids: the order of top-k and top-p.
bool ahead(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

/// Keeps the k best. A buffer of 2k is cut back to k whenever it is full. A value that cannot beat the k-th
/// is skipped; an equal value that comes later has a higher id, so it cannot.
void take_top_k(std::span<const float> values, std::span<const std::int32_t> ids, std::size_t k,
                std::vector<Candidate>& kept) {
  const std::size_t room = std::max<std::size_t>(2 * k, 256);
  float threshold = kNever;
  const auto cut = [&] {
    std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(k) - 1, kept.end(), ahead);
    kept.resize(k);
    threshold = kept[k - 1].value;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > threshold)) continue;
    kept.push_back({token_at(ids, i), std::min(values[i], FLT_MAX)});
    if (kept.size() == room) cut();
  }
  if (kept.size() > k) cut();
}

/// Takes the values >= `least`; skips -infinity and NaN.
void take_from(std::span<const float> values, std::span<const std::int32_t> ids, float least,
               std::vector<Candidate>& kept) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= least && values[i] > kNever) {
      kept.push_back({token_at(ids, i), std::min(values[i], FLT_MAX)});
    }
  }
}

/// A weight in multiples of 2^-44, rounded to nearest: adding 2^52 leaves them in the low bits of the double.
std::uint64_t mass_of(double weight) {
  return std::bit_cast<std::uint64_t>(weight * 0x1p44 + 0x1p52) - std::bit_cast<std::uint64_t>(0x1p52);
}

std::uint64_t mass_of(std::span<const Candidate> candidates) {
  std::uint64_t sum = 0;  // at most 2^44 * 2^20: no overflow
  for (const Candidate& candidate : candidates) sum += mass_of(candidate.weight);
  return sum;
}

/// The mass of a whole row. The compiler may vectorise this loop, because integer sums allow any order.
std::uint64_t mass_of(std::span<const float> values, float highest, float temperature) {
  std::uint64_t sum = 0;
  for (const float value : values) sum += mass_of(exp_of_negative(tempered(value, highest, temperature)));
  return sum;
}

/// The mass at which top-p stops: its fraction of the whole, at least one multiple.
std::uint64_t share_of(float top_p, std::uint64_t whole) {
  const double share = static_cast<double>(top_p) * static_cast<double>(whole);
  return share > 1 ? static_cast<std::uint64_t>(share) : 1;
}

void weigh(float highest, float temperature, std::vector<Candidate>& kept) {
  for (Candidate& candidate : kept) {
    candidate.weight = exp_of_negative(tempered(candidate.value, highest, temperature));
  }
}

/// Weighted selection: halves the range that holds the crossing until it is short, then scans it in order.
void take_top_p(std::uint64_t need, std::vector<Candidate>& kept) {
  auto low = kept.begin();
  auto high = kept.end();
  while (high - low > 64) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, ahead);
    const std::uint64_t upper = mass_of(std::span<const Candidate>(low, middle));
    if (upper >= need) {
      high = middle;
    } else {
      need -= upper;
      low = middle;
    }
  }
  std::sort(low, high, ahead);
  for (; low != high; ++low) {
    const std::uint64_t own = mass_of(low->weight);
    if (own >= need) {
      kept.erase(low + 1, kept.end());
      return;
    }
    need -= own;
  }
  kept.erase(high, kept.end());
}

/// highest - depth * temperature, rounded down, so no value within the depth is below it.
float value_at(double depth, float highest, float temperature) {
  const double drop = depth * static_cast<double>(temperature);
  const double margin = 1e-6 * (static_cast<double>(highest < 0 ? -highest : highest) + drop);
  const double least = static_cast<double>(highest) - drop - margin;
  return least > -FLT_MAX ? static_cast<float>(least) : kNever;
}

/// top-p over a whole row. Only its upper end is collected, deeper until the fraction is reached. A value 32
/// below the highest has no mass.
void take_top_p_of(std::span<const float> values, std::span<const std::int32_t> ids,
                   const SamplingParams& sampler, float highest, std::vector<Candidate>& kept) {
  const std::uint64_t need = share_of(sampler.top_p, mass_of(values, highest, sampler.temperature));
  for (const double depth : {4.0, 8.0, 16.0, 32.0}) {
    kept.clear();
    take_from(values, ids, value_at(depth, highest, sampler.temperature), kept);
    weigh(highest, sampler.temperature, kept);
    if (mass_of(std::span<const Candidate>(kept)) >= need) break;
  }
  take_top_p(need, kept);
}

}  // namespace

bool allowed(std::span<const std::uint32_t> mask, std::int32_t token) {
  const auto id = static_cast<std::uint32_t>(token);
  return mask.empty() || (id / 32 < mask.size() && ((mask[id / 32] >> (id % 32)) & 1) != 0);
}

std::int32_t lowest_allowed(std::size_t count, std::span<const std::int32_t> ids,
                            std::span<const std::uint32_t> mask) {
  for (std::size_t i = 0; i < count; ++i) {
    if (allowed(mask, token_at(ids, i))) return token_at(ids, i);
  }
  return token_at(ids, 0);
}

std::span<const float> adjust(std::span<const float> logits, std::span<const std::int32_t> ids,
                              const SampleRow& row, SampleScratch& scratch,
                              std::span<const std::int32_t> drafts) {
  FT_ASSERT(row.sampler != nullptr);
  FT_ASSERT(!logits.empty() && (ids.empty() || ids.size() == logits.size()));
  const bool penalties = penalises(*row.sampler) && !(row.history.empty() && drafts.empty());
  if (!penalties && row.bias.empty() && row.mask.empty()) return logits;
  scratch.values.assign(logits.begin(), logits.end());
  const std::span<float> values = scratch.values;
  if (penalties) {
    scratch.drafts.assign(drafts.begin(), drafts.end());
    std::ranges::sort(scratch.drafts);
    penalise_seen(row, scratch.drafts, Places(values.size(), ids), values);
  }
  Places places(values.size(), ids);
  for (const LogitBias& bias : row.bias) {
    if (const std::ptrdiff_t at = places.find(bias.token); at >= 0) {
      values[static_cast<std::size_t>(at)] += bias.value;
    }
  }
  if (!row.mask.empty()) apply_mask(row.mask, ids, values);
  return values;
}

Highest find_highest(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  constexpr std::size_t kBlock = 1024;
  Highest best;
  std::size_t block = 0;  // where the best block begins
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - first);
    const float* at = values.data() + first;
    std::array<float, kLanes> lanes;
    lanes.fill(kNever);
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {  // a comparison with NaN is false: NaN never enters
        lanes[lane] = at[i + lane] > lanes[lane] ? at[i + lane] : lanes[lane];
      }
    }
    for (; i < count; ++i) lanes[0] = at[i] > lanes[0] ? at[i] : lanes[0];
    const float most = std::min(*std::ranges::max_element(lanes), FLT_MAX);
    if (most > best.value) {
      best.value = most;
      block = first;
    }
  }
  if (best.value == kNever) return best;
  best.place = block;
  while (!(values[best.place] >= best.value)) ++best.place;
  return best;
}

void filter(std::span<const float> values, std::span<const std::int32_t> ids, const SamplingParams& sampler,
            float highest, SampleScratch& scratch) {
  std::vector<Candidate>& kept = scratch.candidates;
  kept.clear();
  const double min_p = std::min(1.0, static_cast<double>(sampler.min_p));
  if (sampler.top_k > 0 && static_cast<std::size_t>(sampler.top_k) < values.size()) {
    take_top_k(values, ids, static_cast<std::size_t>(sampler.top_k), kept);
    if (!(sampler.top_p < 1) && !(min_p > 0)) return;
    weigh(highest, sampler.temperature, kept);
    if (sampler.top_p < 1)
      take_top_p(share_of(sampler.top_p, mass_of(std::span<const Candidate>(kept))), kept);
  } else if (sampler.top_p < 1) {
    take_top_p_of(values, ids, sampler, highest, kept);
  } else {
    const float least = min_p > 0 ? value_at(-log_of_positive(min_p), highest, sampler.temperature) : kNever;
    take_from(values, ids, least, kept);
    weigh(highest, sampler.temperature, kept);
  }
  if (min_p > 0) std::erase_if(kept, [min_p](const Candidate& c) { return c.weight < min_p; });
}

}  // namespace ft
