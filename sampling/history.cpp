#include "sampling/history.h"

#include <algorithm>

namespace ft {

void History::add_prompt(std::span<const std::int32_t> tokens) {
  const std::size_t before = counts_.size();
  counts_.reserve(before + tokens.size());
  for (const std::int32_t token : tokens) counts_.push_back({token, 0});
  const auto added = counts_.begin() + static_cast<std::ptrdiff_t>(before);
  std::ranges::sort(added, counts_.end(), {}, &TokenCount::token);
  // A stable merge puts the counted entry of an earlier call first, and that is the one that stays.
  std::ranges::inplace_merge(counts_.begin(), added, counts_.end(), {}, &TokenCount::token);
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
