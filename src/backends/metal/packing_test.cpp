// Matrices mapped from the packed-weight cache: the same bits as in memory, each from a separate page.
// Damaged files are packed again, and matrices that cannot be mapped are packed into memory.
#include "backends/metal/packing.h"

#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

#include "backends/metal/backend.h"
#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/metal/test_tokens.h"
#include "backends/test_timeline.h"
#include "base/log.h"

namespace ft::metal::packing_test {
namespace {

namespace fs = std::filesystem;

/// Counts mappings and allocations; may refuse to map.
class Counted final : public ForwardingDevice {
 public:
  explicit Counted(Code refuses_with = Code::kInvalid)
      : ForwardingDevice(open_twin_device()), refuses_with_(refuses_with) {}
  Result<Buffer> allocate(std::size_t bytes) override {
    allocated += bytes;
    return inner().allocate(bytes);
  }
  Result<Buffer> wrap(std::span<const std::byte> pages) override {
    if (refuses_with_ != Code::kInvalid) return Error{refuses_with_, "metal backend: no pages today"};
    constexpr auto kPage = static_cast<std::size_t>(kPackedPageBytes);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % std::min(page, kPage), 0U);
    EXPECT_EQ(pages.size() % kPage, 0U);
    ++wrapped;
    return inner().wrap(pages);
  }

  std::size_t allocated = 0;
  int wrapped = 0;

 private:
  Code refuses_with_;
};

class MetalPacking : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / fmt::format("metal_packing_{}_{}", ::getpid(), test->name());
    fs::remove_all(folder_);
    set_log_level(LogLevel::kWarn);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    set_log_level(LogLevel::kInfo);
  }

  PackedCacheOptions cache(const char* source = "a") const {
    return {folder_.string(), "toy", "/models/toy", std::string(32, source[0])};
  }
  /// The logits of 20 tokens; log lines go to log_.
  std::vector<float> logits(const std::shared_ptr<Device>& device, const PackedCacheOptions& cache,
                            const TestShape& shape = TestShape::odd(), unsigned seed = 3) {
    const TestProgram test(shape, seed);
    testing::internal::CaptureStderr();
    const auto executable =
        std::move(compile(device, test.program, {.max_rows = 20, .max_logit_rows = 20}, cache).value());
    log_ = testing::internal::GetCapturedStderr();
    packed_bytes_ = executable->packed_bytes();
    if (!executable->ids().empty()) executable->add_draft_tokens(std::vector<std::int32_t>{77, 58});
    const auto state =
        std::move(MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 1}).value());
    TestTimeline timeline(*executable, *state, {0}, 0);
    return timeline.step(tokens_of(shape, 0, 20), 20);
  }
  fs::path file() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    EXPECT_EQ(found.size(), 1U);
    return found.at(0);
  }

  fs::path folder_;
  std::string log_;
  std::int64_t packed_bytes_ = 0;
};

TEST_F(MetalPacking, MappedWeightsGiveTheSameBitsAndNeedNoMemory) {
  TestShape draft;
  draft.ids = {0, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  draft.extra.count = 4;
  TestShape experts = TestShape::mixture();
  for (const TestShape& shape : {TestShape::odd(), experts, draft}) {
    fs::remove_all(folder_);
    const auto plain = std::make_shared<Counted>();
    const std::vector<float> expected = logits(plain, {}, shape);
    const std::int64_t bytes = packed_bytes_;
    EXPECT_EQ(plain->wrapped, 0);
    for (const char* start : {"first", "second"}) {
      const auto mapped = std::make_shared<Counted>();
      EXPECT_EQ(logits(mapped, cache(), shape), expected) << start;
      EXPECT_EQ(log_, "") << start;
      EXPECT_EQ(packed_bytes_, bytes) << start;
      EXPECT_GT(mapped->wrapped, 5) << start;
      if (std::string_view(start) == "first") continue;  // which packed them one by one
      EXPECT_LT(mapped->allocated, plain->allocated);
    }
    EXPECT_GE(fs::file_size(file()), kPackedPageBytes);
  }
}

TEST_F(MetalPacking, TheFileIsReallyRead) {
  const std::vector<float> one = logits(open_twin_device(), cache(), TestShape::odd(), 3),
                           other = logits(open_twin_device(), {}, TestShape::odd(), 4);
  EXPECT_NE(logits(open_twin_device(), cache(), TestShape::odd(), 4), other) << "said to be unchanged";
  EXPECT_EQ(logits(open_twin_device(), cache("b"), TestShape::odd(), 4), other);
  EXPECT_NE(log_.find("the model has changed since it was written"), std::string::npos) << log_;
  EXPECT_NE(one, other);
}

TEST_F(MetalPacking, ADamagedFileIsPackedAgain) {
  const std::vector<float> expected = logits(open_twin_device(), cache());
  std::ifstream in(file(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (const std::size_t at : {std::size_t{3}, std::size_t{16384}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << bad;
    EXPECT_EQ(logits(open_twin_device(), cache()), expected) << at;
    EXPECT_NE(log_.find("packed again"), std::string::npos) << log_;
    EXPECT_EQ(logits(open_twin_device(), cache()), expected) << at;
    EXPECT_EQ(log_, "") << at;
  }
}

TEST_F(MetalPacking, WhatCannotBeMappedIsPackedIntoMemory) {
  const std::vector<float> expected = logits(open_twin_device(), {});
  EXPECT_EQ(logits(std::make_shared<Counted>(Code::kUnsupported), cache()), expected);
  EXPECT_NE(log_.find("no pages today; the weights are packed into memory"), std::string::npos) << log_;
  fs::remove_all(folder_);
  std::ofstream(folder_) << "a file in place of the folder";
  EXPECT_EQ(logits(open_twin_device(), cache()), expected);
  EXPECT_NE(log_.find("the next start packs the weights again"), std::string::npos) << log_;
}

TEST_F(MetalPacking, TheGpusLimitIsAnError) {
  const TestProgram test(TestShape::odd(), 3);
  const auto device = std::make_shared<Counted>(Code::kExhausted);
  const auto made = compile(device, test.program, {}, cache());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kExhausted);
}

/// Whether all submitted work is done.
class Watched final : public ForwardingDevice {
 public:
  Watched() : ForwardingDevice(open_twin_device()) {}
  void release(Buffer& buffer) override {
    EXPECT_TRUE(is_idle || buffer.handle != nullptr) << "the GPU may be reading these pages";
    inner().release(buffer);
  }
  std::int64_t submit() override {
    is_idle = false;
    return 1;
  }
  void wait_for(std::int64_t) const override { is_idle = true; }
  void finish() override { is_idle = true; }

  mutable bool is_idle = true;
};

TEST_F(MetalPacking, PagesStayWhileTheGpuReadsThem) {
  const TestShape shape = TestShape::odd();
  const TestProgram test(shape, 3);
  const auto device = std::make_shared<Watched>();
  auto executable = std::move(compile(device, test.program, {.max_rows = 20}, cache()).value());
  const auto state =
      std::move(MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 1}).value());
  TestTimeline timeline(*executable, *state, {0}, 0);
  const std::vector<std::int32_t> tokens = tokens_of(shape, 0, 3);
  const std::vector<Segment> segments = {timeline.segment(3, 3)};
  StepArgs args;
  args.tokens = tokens, args.segments = segments, args.logits = false;
  executable->submit(args, *state);
  EXPECT_FALSE(device->is_idle);
  executable.reset();
  EXPECT_TRUE(device->is_idle);
}

}  // namespace
}  // namespace ft::metal::packing_test
