// Log-probabilities as they are reported: the log-softmax, in double, of the target's logits as the model
// gave them, before penalties, bias, mask, temperature and filters. So they say what the model thought, and
// do not depend on how the token was drawn or whether it was drafted. NaN counts as -infinity. A row without
// any finite logit, and a token without a logit, give -infinity, which JSON cannot hold: the caller writes
// what its format wants. Cost: one exponential a token and one pass that keeps the best few. No allocation
// once `out` has seen the size. Thread: pure but for `out`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

inline constexpr std::size_t kMaxTopLogprobs = 20;  // as in the OpenAI interface

struct TokenLogprob {
  std::int32_t token = 0;
  double logprob = 0;
};

struct Logprobs {
  double selected = 0;            // of the token that was emitted
  std::vector<TokenLogprob> top;  // likeliest first, ties to the lowest id; whether or not they were allowed
};

/// logits: [vocabulary], not empty. top: at most kMaxTopLogprobs, checked where requests are; more is cut to
/// it.
void logprobs(std::span<const float> logits, std::int32_t token, std::size_t top, Logprobs& out);

}  // namespace ft
