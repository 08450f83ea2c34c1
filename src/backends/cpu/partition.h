// Partition of work among workers, in pieces of one size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ft::cpu {

/// The range [first, last) of `count` items that belongs to `worker`, in multiples of `step`.
struct Range {
  std::int64_t first, last;
};

constexpr Range partition(std::int64_t count, std::int64_t step, int worker, int workers) {
  const std::int64_t steps = (count + step - 1) / step;
  return {std::min(count, steps * worker / workers * step),
          std::min(count, steps * (worker + 1) / workers * step)};
}

/// Numbers of workers that are worth trying for memory-bound steps where there are `most`, ascending: all,
/// one less, then about an eighth less at a time down to half. Few workers are all needed.
inline std::vector<int> worker_choices(int most) {
  constexpr int kMin = 4, kParts = 8;
  if (most < kMin) return {};
  std::vector<int> choices;
  for (int part = kParts / 2; part <= kParts; ++part) {
    if (part == kParts && choices.back() < most - 1) choices.push_back(most - 1);
    const int workers = most * part / kParts;
    if (choices.empty() || choices.back() < workers) choices.push_back(workers);
  }
  return choices;
}

}  // namespace ft::cpu
