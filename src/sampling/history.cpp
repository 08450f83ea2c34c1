#include "sampling/history.h"

#include <algorithm>

namespace ft {

void History::add_prompt(std::span<const std::int32_t> tokens) {
  counts_.reserve(counts_.size() + tokens.size());
  for (const std::int32_t token : tokens) counts_.push_back({token, 0});
  // Among equal tokens the one with a count comes first and is kept.
  std::ranges::sort(counts_, [](const TokenCount& a, const TokenCount& b) {
    return a.token < b.token || (a.token == b.token && a.output > b.output);
  });
  const auto rest = std::ranges::unique(counts_, {}, &TokenCount::token);
  counts_.erase(rest.begin(), rest.end());
}

void History::add_output(std::int32_t token) {
  const auto at = std::ranges::lower_bound(counts_, token, {}, &TokenCount::token);
  if (at != counts_.end() && at->token == token) {
    ++at->output;
  } else {
    counts_.insert(at, {token, 1});
  }
}

}  // namespace ft
