#include "sched/admission.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "sched/machine_memory.h"
#include "tests/toy_decoder.h"

namespace ft::test::admission_test {
namespace {

class Admission : public testing::Test {
 protected:
  static DecoderOptions options(int slots, std::int64_t context) {
    DecoderOptions options;
    options.slots = slots, options.context = context, options.prefill_chunk = 64;
    return options;
  }
  MemoryReport needed(const DecoderOptions& asked) {
    return memory_needed(decoder_->backend(), decoder_->model(), asked);
  }
  ToyDecoder decoder_{2, {}, 256, 1 << 20};
};

TEST_F(Admission, KeysAndStatesAreThoseThatADecoderAllocates) {
  const MemoryReport report = needed(options(2, 256));
  const std::int64_t cache_blocks = decoder_->room().blocks, snapshots = decoder_->room().snapshots;
  ASSERT_GT(cache_blocks, 0);
  // The target's state, with the share of the snapshots; ref does not count tapes in bytes().
  EXPECT_EQ(report.key_values, 2 * Decoder::blocks_of(256, kMaxDraftTokens) *
                                   (decoder_->room().block_bytes + decoder_->room().draft_block_bytes));
  EXPECT_GT(report.key_values + report.states + cache_blocks * decoder_->room().block_bytes +
                snapshots * decoder_->room().snapshot_bytes,
            decoder_->state_bytes());
}

TEST_F(Admission, WhatFitsIsAdmittedAndOneByteLessIsRefusedWithTheNumbers) {
  const DecoderOptions asked = options(4, 4096);
  MemoryReport report = needed(asked);
  report.limit = report.total();
  EXPECT_TRUE(check_memory(report, asked).ok());
  report.limit -= 1;
  const Status refused = check_memory(report, asked);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_NE(refused.error().message.find("4 slots of 4096 tokens need"), std::string::npos);
  report.limit = 0;
  EXPECT_TRUE(check_memory(report, asked).ok()) << "nothing is known: nothing is refused";
}

TEST_F(Admission, TheContextThatTheRefusalNamesFits) {
  const DecoderOptions asked = options(4, 4096);
  MemoryReport report = needed(asked);
  report.limit = report.total() - report.key_values / 2;
  const Status refused = check_memory(report, asked);
  ASSERT_FALSE(refused.ok());
  const std::string& words = refused.error().message;
  const std::size_t at = words.find("would fit with ");
  ASSERT_NE(at, std::string::npos) << words;
  const std::int64_t named = std::stoll(words.substr(at + 15));
  EXPECT_GT(named, 1500);
  MemoryReport smaller = needed(options(4, named));
  smaller.limit = report.limit;
  EXPECT_TRUE(check_memory(smaller, asked).ok()) << words;
}

class MachineMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("foretoken_memory_" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

TEST_F(MachineMemory, IsWhatIsAvailableWhereNoGroupLimits) {
  EXPECT_EQ(available_memory(root_), 0) << "nothing is known";
  write("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:    60 kB\n");
  EXPECT_EQ(available_memory(root_), 60 * 1024);
  EXPECT_GT(available_memory(), 0) << "of this machine";
}

TEST_F(MachineMemory, IsTheTightestGroupsRest) {
  write("proc/meminfo", "MemAvailable: 1000 kB\n");
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  write("sys/fs/cgroup/outer/memory.max", "500000\n");
  write("sys/fs/cgroup/outer/memory.current", "300000\n");
  write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 50000\nactive_file 10000\n");
  EXPECT_EQ(available_memory(root_), 260000) << "files' pages would be given back";
  write("sys/fs/cgroup/outer/inner/memory.max", "100000\n");
  EXPECT_EQ(available_memory(root_), 100000);
}

}  // namespace
}  // namespace ft::test::admission_test
