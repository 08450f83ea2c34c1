#include "sampling/sample.h"

#include <cfloat>

#include "sampling/filters.h"
#include "sampling/philox.h"

namespace ft {
namespace {

struct Best {
  double score = -std::numeric_limits<double>::infinity();
  std::int32_t token = -1;

  void offer(double score_of_token, std::int32_t candidate) {
    if (score_of_token > score || (score_of_token == score && candidate < token)) {
      score = score_of_token;
      token = candidate;
    }
  }
};

/// Can a token whose uniform number begins with `upper` still reach the best score, `gap` above its own
/// logit? With r = 1 - (upper + 1) / 2^32 <= 1 - u <= -log(u), its noise is at most -log(r), and exp(-gap) <=
/// 1 / (1 + gap + gap^2 / 2 + gap^3 / 6). The factor leaves room for rounding, so only sure losers are
/// skipped.
bool may_win(std::uint32_t upper, double gap) {
  if (gap <= 0) return true;
  const double r = static_cast<double>(0xFFFFFFFFu - upper) * 0x1p-32;
  return r * (1 + gap * (1 + gap * (0.5 + gap * (1.0 / 6)))) * (1 - 1e-9) <= 1;
}

std::int32_t draw_candidate(std::span<const Candidate> candidates, const Noise& noise, float highest,
                            float temperature) {
  Best best;
  for (const Candidate& candidate : candidates) {
    const double own = tempered(candidate.value, highest, temperature);
    const auto id = static_cast<std::uint32_t>(candidate.token);
    const std::uint32_t upper = noise.block(id / 4, 0)[id % 4];
    if (!may_win(upper, best.score - own)) continue;
    best.offer(own + noise.gumbel_with(upper, candidate.token), candidate.token);
  }
  return best.token;
}

/// Samples among all tokens. It begins with the likeliest one, so most others drop out before they need
/// noise.
std::int32_t draw_unfiltered(std::span<const float> values, std::span<const std::int32_t> ids,
                             const Noise& noise, const Highest& highest, float temperature) {
  Best best;
  const std::int32_t likeliest = token_at(ids, highest.place);
  best.offer(noise.gumbel(likeliest), likeliest);
  std::uint32_t group = ~std::uint32_t{0};
  PhiloxBlock words{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] > kNever)) continue;
    const double own = tempered(values[i], highest.value, temperature);
    const double gap = best.score - own;
    if (gap > kGumbelMost) continue;
    const std::int32_t token = token_at(ids, i);
    const auto id = static_cast<std::uint32_t>(token);
    if (id / 4 != group) {
      group = id / 4;
      words = noise.block(group, 0);
    }
    if (may_win(words[id % 4], gap)) best.offer(own + noise.gumbel_with(words[id % 4], token), token);
  }
  return best.token;
}

}  // namespace

void SampleScratch::reserve(std::size_t vocabulary) {
  values.reserve(vocabulary);
  candidates.reserve(vocabulary);
  drafts.reserve(64);
}

std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> ids, const SampleRow& row,
                    SampleScratch& scratch, std::span<const std::int32_t> drafts) {
  const std::span<const float> values = adjust(logits, ids, row, scratch, drafts);
  const Highest highest = find_highest(values);
  if (highest.value == kNever) return lowest_allowed(values.size(), ids, row.mask);
  const SamplingParams& sampler = *row.sampler;
  if (!(sampler.temperature > 0)) return token_at(ids, highest.place);
  const Noise noise{sampler.seed, row.position, row.stream};
  if (!filters(sampler, values.size())) {
    return draw_unfiltered(values, ids, noise, highest, sampler.temperature);
  }
  filter(values, ids, sampler, highest.value, scratch);
  return draw_candidate(scratch.candidates, noise, highest.value, sampler.temperature);
}

}  // namespace ft
