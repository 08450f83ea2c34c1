#include "lab/bandwidth.h"

#include <gtest/gtest.h>

namespace ft::bandwidth_test {
namespace {

constexpr std::int64_t kMb = std::int64_t{1} << 20;

TEST(BandwidthProbe, ReadsTwiceTheCaches) {
  EXPECT_EQ(probe_bytes(300 * kMb, 64000 * kMb), static_cast<std::size_t>(600 * kMb));
}

TEST(BandwidthProbe, ReadsAtLeastWhatNoSmallCacheHolds) {
  EXPECT_EQ(probe_bytes(0, 64000 * kMb), static_cast<std::size_t>(256 * kMb));
  EXPECT_EQ(probe_bytes(32 * kMb, 64000 * kMb), static_cast<std::size_t>(256 * kMb));
}

TEST(BandwidthProbe, LeavesMostOfTheFreeMemoryAlone) {
  EXPECT_EQ(probe_bytes(1000 * kMb, 1600 * kMb), static_cast<std::size_t>(400 * kMb));
  EXPECT_EQ(probe_bytes(1000 * kMb, 0), static_cast<std::size_t>(256 * kMb));
}

TEST(BandwidthProbe, MeasuresThisMachine) {
  BandwidthProbe probe(1);
  EXPECT_GT(probe.gb_per_s(), 0);
}

}  // namespace
}  // namespace ft::bandwidth_test
