// What Macs have told of themselves, as people published it: no Mac is at hand.
#include "backends/metal/gpu_facts.h"

#include <gtest/gtest.h>

namespace ft::metal {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

struct Recorded {
  GpuFacts gpu;
  const char* text;
  const char* source;
};

// The buffer limits are not in these reports; half of the memory or more is what Apple documents.
const Recorded kRecorded[] = {
    {{"Apple M1", 7, 5461 * kMib, 4096 * kMib},
     "Apple M1 (family Apple 7), working set 5.7 GB",
     "8 GB, github.com/h2oai/h2ogpt/issues/1359"},
    {{"Apple M1", 7, 10922 * kMib, 8192 * kMib},
     "Apple M1 (family Apple 7), working set 11.5 GB",
     "16 GB, github.com/ise-uiuc/magicoder/issues/19"},
    {{"Apple M2 Max", 8, 21845 * kMib, 16384 * kMib},
     "Apple M2 Max (family Apple 8), working set 22.9 GB",
     "32 GB, github.com/ollama/ollama/issues/434"},
    {{"Apple M2 Max", 8, 73728 * kMib, 55296 * kMib},
     "Apple M2 Max (family Apple 8), working set 77.3 GB",
     "96 GB, github.com/ggml-org/llama.cpp/issues/3213"},
    {{"Apple M3", 9, 11453'250'000, 8192 * kMib},
     "Apple M3 (family Apple 9), working set 11.5 GB",
     "16 GB, a published log of llama.cpp: recommendedMaxWorkingSetSize = 11453.25 MB"},
    {{"Apple M3 Max", 9, 38654'710'000, 24576 * kMib},
     "Apple M3 Max (family Apple 9), working set 38.7 GB",
     "48 GB, a published log of llama.cpp: recommendedMaxWorkingSetSize = 38654.71 MB"},
    {{"Apple M4", 9, 11453'250'000, 8192 * kMib},
     "Apple M4 (family Apple 9), working set 11.5 GB",
     "github.com/ggml-org/llama.cpp/issues/11083"},
    {{"Apple M5 Max", 10, 40200'900'000, 24576 * kMib},
     "Apple M5 Max (family Apple 10), working set 40.2 GB",
     "github.com/ggml-org/llama.cpp/pull/16634"},
};

TEST(AppleGpu, EveryRecordedMacIsTakenAndDescribed) {
  for (const Recorded& recorded : kRecorded) {
    EXPECT_TRUE(check_family(recorded.gpu).ok()) << recorded.source;
    EXPECT_EQ(describe(recorded.gpu), std::string(recorded.text) + ", unmeasured by the project")
        << recorded.source;
  }
}

TEST(AppleGpu, AnOlderOneIsRefused) {
  const Status status = check_family({"AMD Radeon Pro 5500M", 0, 8192 * kMib, 4096 * kMib});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("AMD Radeon Pro 5500M is older than Apple M1"), std::string::npos);
}

/// The working set counts what is there already, up to its last byte.
TEST(AppleGpu, MemoryEndsAtTheWorkingSet) {
  for (const Recorded& recorded : kRecorded) {
    const std::uint64_t limit = recorded.gpu.working_set, used = limit - 1000 * kMib;
    EXPECT_TRUE(check_room(recorded.gpu, used, 1000 * kMib).ok()) << recorded.source;
    EXPECT_FALSE(check_room(recorded.gpu, used, 1000 * kMib + 1).ok()) << recorded.source;
    EXPECT_FALSE(check_room(recorded.gpu, 0, recorded.gpu.max_buffer + 1).ok()) << recorded.source;
    EXPECT_FALSE(check_room(recorded.gpu, limit + kMib, 1).ok()) << recorded.source;
  }
  const Status full = check_room(kRecorded[0].gpu, 5000'000'000, 2000'000'000);
  EXPECT_EQ(full.error().code, Code::kExhausted);
  EXPECT_NE(full.error().message.find("2.0 GB more do not fit beside 5.0 GB: the GPU's limit is 5.7 GB"),
            std::string::npos)
      << full.error().message;
  EXPECT_NE(full.error().message.find("iogpu.wired_limit_mb"), std::string::npos);
}

}  // namespace
}  // namespace ft::metal
