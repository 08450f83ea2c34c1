// The steps that `sample` and `distribution` share: penalties, bias and mask to values, values to candidates.
// sampling/sample.h states the rules and the cost. Each step reads its inputs in ascending order of token,
// but candidates come in no particular order. Nothing depends on their order except ties, which go to the
// lower id.
#pragma once

#include <cfloat>
#include <cstdint>
#include <limits>
#include <span>

#include "sampling/sample.h"

namespace ft {

inline constexpr float kNever = -std::numeric_limits<float>::infinity();

inline std::int32_t token_at(std::span<const std::int32_t> ids, std::size_t place) {
  return ids.empty() ? static_cast<std::int32_t>(place) : ids[place];
}

/// True if the token's bit is set. An empty mask allows everything.
bool allowed(std::span<const std::uint32_t> mask, std::int32_t token);

/// The first allowed token, or the first of all if the mask allows none. For rows without a finite logit.
std::int32_t lowest_allowed(std::size_t count, std::span<const std::int32_t> ids,
                            std::span<const std::uint32_t> mask);

/// The logits after penalties, bias and mask: `logits` itself if nothing applies, otherwise scratch.values.
std::span<const float> adjust(std::span<const float> logits, std::span<const std::int32_t> ids,
                              const SampleRow& row, SampleScratch& scratch,
                              std::span<const std::int32_t> drafts);

struct Highest {
  float value = kNever;   // never NaN, at most FLT_MAX; kNever if no value is above it
  std::size_t place = 0;  // the first place that holds it
};

Highest find_highest(std::span<const float> values);

/// Whether the sampler changes the logits of tokens that have been seen.
inline bool penalises(const SamplingParams& sampler) {
  return sampler.repetition != 1 || sampler.presence != 0 || sampler.frequency != 0;
}

inline bool filters(const SamplingParams& sampler, std::size_t count) {
  return (sampler.top_k > 0 && static_cast<std::size_t>(sampler.top_k) < count) || sampler.top_p < 1 ||
         sampler.min_p > 0;
}

/// (value - highest) / temperature in double.
inline double tempered(float value, float highest, float temperature) {
  const float finite = value > FLT_MAX ? FLT_MAX : value;
  return (static_cast<double>(finite) - static_cast<double>(highest)) / static_cast<double>(temperature);
}

/// Fills scratch.candidates with what top-k, top-p and min-p leave of `values`, in no particular order.
/// Requires temperature > 0 and a finite highest value. Weights are set if top-p or min-p is on.
void filter(std::span<const float> values, std::span<const std::int32_t> ids, const SamplingParams& sampler,
            float highest, SampleScratch& scratch);

}  // namespace ft
