#include "api/choice.h"

#include <gtest/gtest.h>

#include "base/random_source.h"

namespace ft::api::choice_test {
namespace {

TEST(RandomId, HasAll128BitsThatTheSystemsSourceGivesForIt) {
  std::uint8_t next = 0;
  const ReplacedRandomSource replaced([&](std::span<std::byte> out) {
    for (std::byte& byte : out) byte = std::byte{next++};
  });
  EXPECT_EQ(random_id("req_"), "req_07060504030201000f0e0d0c0b0a0908");
  EXPECT_EQ(random_seed(), 0x1716151413121110U) << "a seed shares no byte with an id";
  EXPECT_EQ(random_id(""), "1f1e1d1c1b1a19182726252423222120");
}

}  // namespace
}  // namespace ft::api::choice_test
