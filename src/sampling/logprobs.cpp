#include "sampling/logprobs.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "sampling/exp_log.h"
#include "sampling/filters.h"

namespace ft {
namespace {

/// log(sum exp(x - highest)), by eight partial sums at fixed positions, combined in order.
double log_sum(std::span<const float> logits, float highest) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= logits.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane] += exp_of_negative(tempered(logits[i + lane], highest, 1));
    }
  }
  for (; i < logits.size(); ++i) lanes[0] += exp_of_negative(tempered(logits[i], highest, 1));
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return log_of_positive(sum);
}

}  // namespace

void logprobs(std::span<const float> logits, std::int32_t token, std::size_t top, Logprobs& out) {
  FT_ASSERT(!logits.empty() && top <= kMaxTopLogprobs);
  out.top.clear();
  out.sampled = static_cast<double>(kNever);
  const float highest = find_highest(logits).value;
  if (highest == kNever) return;
  const double rest = log_sum(logits, highest);
  const auto logprob = [&](float value) {
    return value > kNever ? tempered(value, highest, 1) - rest : kNever;
  };
  if (token >= 0 && static_cast<std::size_t>(token) < logits.size()) {
    out.sampled = logprob(logits[static_cast<std::size_t>(token)]);
  }
  top = std::min(top, kMaxTopLogprobs);
  if (top == 0) return;
  struct Kept {
    float value;
    std::int32_t token;
  };
  std::array<Kept, kMaxTopLogprobs>
      kept;  // [count], greatest first; an equal value that comes later has a higher id
  std::size_t count = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > (count == top ? kept[count - 1].value : kNever))) continue;
    std::size_t at = count < top ? count++ : top - 1;
    for (; at > 0 && kept[at - 1].value < logits[i]; --at) kept[at] = kept[at - 1];
    kept[at] = {logits[i], static_cast<std::int32_t>(i)};
  }
  for (std::size_t i = 0; i < count; ++i) out.top.push_back({kept[i].token, logprob(kept[i].value)});
}

}  // namespace ft
