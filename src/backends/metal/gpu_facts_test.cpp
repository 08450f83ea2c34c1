#include "backends/metal/gpu_facts.h"

#include <gtest/gtest.h>

#include "backends/metal/recorded_macs.h"

namespace ft::metal::gpu_facts_test {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

TEST(AppleGpu, EveryRecordedMacIsTakenAndDescribed) {
  for (const RecordedMac& recorded : kRecordedMacs) {
    EXPECT_TRUE(check_family(recorded.gpu).ok()) << recorded.source;
    EXPECT_EQ(describe(recorded.gpu), std::string(recorded.text) + ", not yet measured") << recorded.source;
  }
}

TEST(AppleGpu, AnOlderOneIsRefused) {
  const Status status = check_family({"AMD Radeon Pro 5500M", 0, 8192 * kMib, 4096 * kMib});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("AMD Radeon Pro 5500M is older than Apple M1"), std::string::npos);
}

/// The working set counts what is there already, up to its last byte.
TEST(AppleGpu, MemoryEndsAtTheWorkingSet) {
  for (const RecordedMac& recorded : kRecordedMacs) {
    const std::uint64_t limit = recorded.gpu.working_set, used = limit - 1000 * kMib;
    EXPECT_TRUE(check_room(recorded.gpu, used, 1000 * kMib).ok()) << recorded.source;
    EXPECT_FALSE(check_room(recorded.gpu, used, 1000 * kMib + 1).ok()) << recorded.source;
    EXPECT_FALSE(check_room(recorded.gpu, 0, recorded.gpu.max_buffer + 1).ok()) << recorded.source;
    EXPECT_FALSE(check_room(recorded.gpu, limit + kMib, 1).ok()) << recorded.source;
  }
  const Status full = check_room(kRecordedMacs[0].gpu, 5000'000'000, 2000'000'000);
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_NE(full.error().message.find("2.0 GB more do not fit next to 5.0 GB: the GPU's limit is 5.7 GB"),
            std::string::npos)
      << full.error().message;
  EXPECT_NE(full.error().message.find("iogpu.wired_limit_mb"), std::string::npos);
}

}  // namespace
}  // namespace ft::metal::gpu_facts_test
