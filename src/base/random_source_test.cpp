#include "base/random_source.h"

#include <gtest/gtest.h>
#include <random>
#include <set>
#include <vector>

namespace ft::random_source_test {
namespace {

/// Undoes the tempering of std::mt19937_64: the word of its state from which it gave `value`.
std::uint64_t untempered(std::uint64_t value) {
  value ^= value >> 43U;
  value ^= value << 37U & 0xFFF7EEE000000000U;
  std::uint64_t known = value;
  for (int i = 0; i < 4; ++i) known = value ^ (known << 17U & 0x71D67FFFEDA60000U);
  value = known;
  for (int i = 0; i < 3; ++i) known = value ^ (known >> 29U & 0x5555555555555555U);
  return known;
}

/// Number of values after the first 312 that earlier ones predict by the recurrence of std::mt19937_64.
std::size_t foretold(const std::vector<std::uint64_t>& values) {
  constexpr std::size_t kState = 312, kMiddle = 156;
  constexpr std::uint64_t kLower = 0x7FFFFFFFU, kTwist = 0xB5026F5AA96619E9U;
  std::size_t found = 0;
  for (std::size_t i = kState; i < values.size(); ++i) {
    const std::uint64_t mixed =
        (untempered(values[i - kState]) & ~kLower) | (untempered(values[i - kState + 1]) & kLower);
    const std::uint64_t next =
        untempered(values[i - kState + kMiddle]) ^ (mixed >> 1U) ^ ((mixed & 1U) != 0 ? kTwist : 0);
    found += next == untempered(values[i]) ? 1 : 0;
  }
  return found;
}

TEST(RandomSource, ManyValuesDoNotForetellTheNext) {
  std::vector<std::uint64_t> values(1000);
  std::mt19937_64 generator(7);
  for (std::uint64_t& value : values) value = generator();
  EXPECT_EQ(foretold(values), values.size() - 312) << "a generator is found";
  for (std::uint64_t& value : values) value = random_64();
  EXPECT_EQ(foretold(values), 0U);
  EXPECT_EQ(std::set<std::uint64_t>(values.begin(), values.end()).size(), values.size());
}

TEST(RandomSource, AReplacedSourceIsAskedUntilItEnds) {
  {
    const ReplacedRandomSource replaced([](std::span<std::byte> out) {
      for (std::byte& byte : out) byte = std::byte{7};
    });
    EXPECT_EQ(random_64(), 0x0707070707070707U);
  }
  EXPECT_NE(random_64(), 0x0707070707070707U);
}

}  // namespace
}  // namespace ft::random_source_test
