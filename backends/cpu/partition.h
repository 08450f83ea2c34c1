// Partition of work among workers, in pieces of one size.
#pragma once

#include <algorithm>
#include <cstdint>

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

}  // namespace ft::cpu
