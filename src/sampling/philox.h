// The noise of sampling: Philox 4x32-10, a counter-based generator. A number is a pure function of its key
// and counter. So the noise of (seed, position, token, stream) is the same in any order, batch, thread or
// backend.
//   key      seed low, seed high
//   counter  token / 4, position low, position high, 2 * stream + part
//   word     token % 4
// Part 0 gives the upper 32 bits of four neighbouring tokens, part 1 the next 20. A uniform number has 52
// bits and lies strictly between 0 and 1, at the middle of its cell. Its first part alone bounds it from
// above, so a pass over a whole vocabulary skips almost every logarithm. Cost: 20 multiplications per block.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; the known answers are from
// Random123.
#pragma once

#include <array>
#include <cstdint>

#include "program/sample_row.h"
#include "sampling/exp_log.h"

namespace ft {

using PhiloxBlock = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

/// The maximum of gumbel(): the last cell below 1 is at 1 - 2^-53, and -log(2^-53) < 36.74.
inline constexpr double kGumbelMost = 36.75;

/// The noise of one row, for any token.
struct Noise {
  std::uint64_t seed = 0;
  std::int64_t position = 0;
  Stream stream = Stream::kTarget;

  /// The words of tokens 4 * group .. 4 * group + 3. part: 0 or 1.
  PhiloxBlock block(std::uint32_t group, std::uint32_t part) const {
    const auto at = static_cast<std::uint64_t>(position);
    return philox({group, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32),
                   2 * static_cast<std::uint32_t>(stream) + part},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }

  /// Uniform in (0, 1), given the token's word of part 0.
  double uniform_with(std::uint32_t upper, std::int32_t token) const {
    const auto id = static_cast<std::uint32_t>(token);
    const std::uint64_t cell = (std::uint64_t{upper} << 20) | (block(id / 4, 1)[id % 4] >> 12);
    return static_cast<double>(2 * cell + 1) * 0x1p-53;
  }
  double uniform(std::int32_t token) const {
    const auto id = static_cast<std::uint32_t>(token);
    return uniform_with(block(id / 4, 0)[id % 4], token);
  }

  /// -log(-log(uniform)): adding it to log-probabilities makes the argmax a draw (the Gumbel-max trick).
  double gumbel_with(std::uint32_t upper, std::int32_t token) const {
    return -log_of_positive(-log_of_positive(uniform_with(upper, token)));
  }
  double gumbel(std::int32_t token) const { return -log_of_positive(-log_of_positive(uniform(token))); }
};

inline double uniform(std::uint64_t seed, std::int64_t position, std::int32_t token, Stream stream) {
  return Noise{seed, position, stream}.uniform(token);
}

inline double gumbel(std::uint64_t seed, std::int64_t position, std::int32_t token, Stream stream) {
  return Noise{seed, position, stream}.gumbel(token);
}

}  // namespace ft
