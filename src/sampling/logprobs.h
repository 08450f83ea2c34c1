// Log-probabilities as reported: the log-softmax, in double, of the target's raw logits, before penalties,
// bias, mask, temperature and filters. They say what the model computed and do not depend on how the token
// was drawn or whether it was drafted. NaN counts as -infinity. A row without a finite logit, and a token
// without a logit, give -infinity. JSON cannot hold it, so the caller writes what its format requires. Cost:
// one exponential per token and one pass that keeps the best few. No allocation once `out` has reached its
// size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

inline constexpr std::size_t kMaxTopLogprobs = 20;  // the limit of the OpenAI interface

struct TokenLogprob {
  std::int32_t token = 0;
  double logprob = 0;
};

struct Logprobs {
  double sampled = 0;             // of the token that was emitted
  std::vector<TokenLogprob> top;  // likeliest first, ties to the lowest id; allowed or not
};

/// logits: [vocabulary], not empty. top: at most kMaxTopLogprobs; more is cut, because requests are checked
/// elsewhere.
void logprobs(std::span<const float> logits, std::int32_t token, std::size_t top, Logprobs& out);

}  // namespace ft
