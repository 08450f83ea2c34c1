#include "convert/budget.h"

#include <cmath>
#include <gtest/gtest.h>

namespace ft::convert::budget_test {
namespace {

/// Widths of 2, 4 and 8 bits of `weights`; two bits more make a quarter of the error.
BitCandidate candidate(std::uint64_t weights, double harm) {
  BitCandidate made;
  made.harm = harm;
  for (const int bits : {2, 4, 8})
    made.widths.push_back({{format::QuantMode::kAffine, bits, 64},
                           weights * static_cast<std::uint64_t>(bits) / 8,
                           std::pow(2.0, -bits)});
  return made;
}

TEST(Budget, SpendsOnTheMatrixThatSuffersMost) {
  const std::vector<BitCandidate> all = {candidate(800, 1), candidate(800, 100), candidate(800, 1)};
  EXPECT_EQ(spend(all, 3 * 200 + 200), (std::vector<std::size_t>{0, 1, 0}));
}

TEST(Budget, PrefersASmallMatrixOfEqualHarm) {
  const std::vector<BitCandidate> all = {candidate(8000, 1), candidate(800, 1)};
  EXPECT_EQ(spend(all, 2000 + 200 + 600), (std::vector<std::size_t>{0, 2}));
}

TEST(Budget, NeverExceedsTheBytes) {
  const std::vector<BitCandidate> all = {candidate(800, 5), candidate(1600, 3), candidate(80, 9)};
  for (std::uint64_t budget = 0; budget < 3000; budget += 7) {
    const std::vector<std::size_t> chosen = spend(all, budget);
    std::uint64_t used = 0, least = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      used += all[i].widths[chosen[i]].bytes, least += all[i].widths[0].bytes;
    EXPECT_LE(used, std::max(budget, least));
  }
}

TEST(Budget, GivesNothingToAMatrixWithoutHarm) {
  const std::vector<BitCandidate> all = {candidate(800, 0), candidate(800, 1)};
  EXPECT_EQ(spend(all, 1 << 20), (std::vector<std::size_t>{0, 2}));
}

}  // namespace
}  // namespace ft::convert::budget_test
