#include "sampling/distribution.h"

#include <algorithm>

#include "sampling/exp_log.h"
#include "sampling/filters.h"

namespace ft {

float Distribution::probability(std::int32_t token) const {
  const auto at = std::ranges::lower_bound(entries, token, {}, &std::pair<std::int32_t, float>::first);
  return at != entries.end() && at->first == token ? at->second : 0;
}

void distribution(std::span<const float> logits, std::span<const std::int32_t> ids, const SampleRow& row,
                  SampleScratch& scratch, Distribution& out, std::span<const std::int32_t> drafts) {
  out.entries.clear();
  const std::span<const float> values = adjust(logits, ids, row, scratch, drafts);
  const Highest highest = find_highest(values);
  const SamplingParams& sampler = *row.sampler;
  if (highest.value == kNever) {
    out.entries.emplace_back(lowest_allowed(values.size(), ids, row.mask), 1.0F);
    return;
  }
  if (!(sampler.temperature > 0)) {
    out.entries.emplace_back(token_at(ids, highest.place), 1.0F);
    return;
  }
  filter(values, ids, sampler, highest.value, scratch);
  if (filters(sampler, values.size())) std::ranges::sort(scratch.candidates, {}, &Candidate::token);
  double sum = 0;
  for (Candidate& candidate : scratch.candidates) {
    candidate.weight = exp_of_negative(tempered(candidate.value, highest.value, sampler.temperature));
    sum += candidate.weight;
  }
  for (const Candidate& candidate : scratch.candidates) {
    const auto probability = static_cast<float>(candidate.weight / sum);
    if (probability > 0) out.entries.emplace_back(candidate.token, probability);
  }
}

}  // namespace ft
