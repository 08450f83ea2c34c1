// The device of a Mac against a fake of Metal: it sends only allowed messages, returns every object, its
// steps have the twin's bits, and a refusal of Metal is an error with a sentence.
#include "backends/metal/macos/device.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <stdexcept>
#include <unistd.h>

#include "backends/metal/device_check.h"
#include "backends/metal/executable.h"
#include "backends/metal/macos/fake_metal.h"
#include "backends/metal/test_tokens.h"
#include "backends/test_timeline.h"
#include "tests/full_run.h"

namespace ft::metal::device_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::vector<std::string>& breaches) {
  std::string all;
  for (const std::string& breach : breaches) all += breach + "\n";
  return all;
}

class MetalDeviceOnAFake : public testing::Test {
 protected:
  void SetUp() override { reset_fake_gpu(); }
  void TearDown() override {
    EXPECT_EQ(text_of(fake_gpu().breaches), "");
    EXPECT_EQ(living_objects(), "") << "objects that were not returned";
  }

  static std::shared_ptr<Device> open(const std::string& folder = {}) {
    return std::move(open_mac_gpu(folder).value());
  }
  static std::string problem() {
    const auto made = open_mac_gpu({});
    return made.ok() ? std::string() : made.error().message;
  }
};

/// Logits of a prompt in chunks without waiting, then of single tokens.
std::vector<float> answer_of(const std::shared_ptr<Device>& device, const TestShape& shape,
                             int kv_bits = 16) {
  const TestProgram test(shape, 2);
  const auto executable =
      std::move(compile(device, test.program, {.max_rows = 24, .max_logit_rows = 24}).value());
  const auto state =
      std::move(MetalState::make(device, test.program.layout(), {.slots = 2, .blocks = 6}, kv_bits).value());
  TestTimeline timeline(*executable, *state, {3, 0, 5}, 1);
  for (int at = 0; at < 30; at += 5) {
    const std::vector<std::int32_t> tokens = tokens_of(shape, at, 5);
    const std::vector<Segment> segments = {timeline.segment(5, 5)};
    StepArgs args;
    args.tokens = tokens, args.segments = segments, args.logits = false;
    executable->submit(args, *state);
    timeline.keep(5, 0);
  }
  std::vector<float> all;
  for (int at = 30; at < 34; ++at) {
    const std::vector<float> logits = timeline.step(tokens_of(shape, at, 1), 1);
    timeline.keep(1, 0);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

/// The fake's memory is full of NaN, the twin's of zeros: no kernel reads memory that was not written.
TEST_F(MetalDeviceOnAFake, StepsHaveTheBitsOfTheTwin) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  TestShape plain, draft_head;
  plain.bits = 0;
  draft_head.ids = {0, 1, 2, 3, 5, 8, 13, 21, 34, 55}, draft_head.extra.count = 4;
  TestShape blocks = TestShape::odd();
  blocks.matrices = Format::kMxfp4;
  for (const TestShape& shape : {TestShape{}, TestShape::odd(), TestShape::shared(), TestShape::mixture(),
                                 TestShape::widened(), TestShape::vision(), plain, draft_head, blocks}) {
    const std::vector<float> expected = answer_of(open_twin_device(), shape);
    EXPECT_EQ(answer_of(open(), shape), expected);
    EXPECT_TRUE(std::ranges::none_of(expected, [](float logit) { return std::isnan(logit); }));
  }
  for (const TestShape& shape : {TestShape{}, TestShape::odd()})
    EXPECT_EQ(answer_of(open(), shape, 8), answer_of(open_twin_device(), shape, 8));
  EXPECT_GT(fake_gpu().command_buffers, 20);
  EXPECT_GT(fake_gpu().launches, 10 * fake_gpu().command_buffers) << "a step is few command buffers";
}

/// A step has hundreds of launches, and the runtime's table of names is not free.
TEST_F(MetalDeviceOnAFake, ALaunchLooksUpNoNameOfAMessage) {
  constexpr unsigned kWidth = 64;
  const auto device = open();
  const Memory row = std::move(Memory::make(device, kWidth * sizeof(float)).value());
  std::fill_n(row.as<float>(), kWidth, 2.0F);
  const NormArgs args{1, kWidth, kWidth, kWidth, 0, 0, 1e-6F};
  const std::vector<Place> buffers(3, row.at());
  const int kernel = device->kernel("rms_norm");
  device->dispatch(kernel, buffers, as_args(args), {}, 256);  // begins the command buffer
  const int before = fake_gpu().look_ups;
  device->dispatch(kernel, buffers, as_args(args), {}, 256);
  EXPECT_EQ(fake_gpu().look_ups, before);
  device->finish();
  EXPECT_NEAR(row.as<float>()[kWidth - 1], 1.0F, 1e-5F);
}

TEST_F(MetalDeviceOnAFake, PassesTheSelfTest) {
  const Status status = self_test(open());
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST_F(MetalDeviceOnAFake, TheTextIsCompiledWithoutFastMath) {
  open();
  EXPECT_EQ(fake_gpu().math, "safe precise");
  reset_fake_gpu({.is_macos_14 = true});
  open();
  EXPECT_EQ(fake_gpu().math, "no fast math");
}

TEST_F(MetalDeviceOnAFake, TellsItsFactsAndItsLimit) {
  reset_fake_gpu({.name = "Apple M5 Max", .family = 10, .working_set = 40'200'900'000});
  const auto device = open();
  EXPECT_EQ(device->describe(), "Apple M5 Max (family Apple 10), working set 40.2 GB, not yet measured");
  EXPECT_EQ(device->memory_bytes(), 40'200'900'000);
  fake_gpu().working_set = 1;  // what was read at the start counts
  EXPECT_EQ(device->memory_bytes(), 40'200'900'000);
}

TEST_F(MetalDeviceOnAFake, MemoryEndsAtTheWorkingSet) {
  reset_fake_gpu({.working_set = 1000, .max_buffer = 800});
  const auto device = open();
  Memory first = std::move(Memory::make(device, 700).value());
  const auto second = device->allocate(301);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kExhausted);
  EXPECT_NE(second.error().message.find("iogpu.wired_limit_mb"), std::string::npos);
  EXPECT_FALSE(device->allocate(801).ok()) << "longer than a buffer may be";
  first = {};
  EXPECT_TRUE(Memory::make(device, 800).ok()) << "returned memory can be allocated again";
}

TEST_F(MetalDeviceOnAFake, PagesOfAFileBecomeABufferOrASentence) {
  constexpr std::size_t kPage = 16384;
  const std::unique_ptr<std::byte, decltype(&std::free)> pages(
      static_cast<std::byte*>(std::aligned_alloc(kPage, kPage)), &std::free);
  const std::span<const std::byte> whole(pages.get(), kPage);
  const auto device = open();
  {
    const Memory mapped = std::move(Memory::wrap(device, whole, std::make_shared<int>(0)).value());
    EXPECT_EQ(mapped.data(), pages.get());
  }
  fake_gpu().takes_pages = false;
  const auto refused = device->wrap(whole);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
}

TEST_F(MetalDeviceOnAFake, WhatMetalRefusesAtTheStartIsASentence) {
  reset_fake_gpu({.exists = false});
  EXPECT_NE(problem().find("this Mac has no GPU for Metal"), std::string::npos);
  reset_fake_gpu({.name = "AMD Radeon Pro 5500M", .family = 0});
  EXPECT_NE(problem().find("AMD Radeon Pro 5500M is older than Apple M1"), std::string::npos);
  reset_fake_gpu({.has_queue = false});
  EXPECT_NE(problem().find("gives no command queue"), std::string::npos);
  reset_fake_gpu({.compile_error = "program_source:7: no matching function"});
  EXPECT_NE(problem().find("Apple M1 does not compile the kernels (program_source:7: no matching function)"),
            std::string::npos);
  reset_fake_gpu({.refused_kernel = "conv"});
  const Status status = self_test(open());
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("makes no pipeline of kernel conv"), std::string::npos);
}

TEST_F(MetalDeviceOnAFake, AnErrorOfACommandBufferReachesTheOneWhoWaitsOnce) {
  const auto device = open();
  const TestShape shape;
  const TestProgram test(shape, 1);
  const auto executable = std::move(compile(device, test.program, {}).value());
  const auto state =
      std::move(MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 1}).value());
  TestTimeline timeline(*executable, *state, {0}, 0);
  fake_gpu().failure = "Caused GPU Hang Error";
  try {
    timeline.step(tokens_of(shape, 0, 3), 3);
    FAIL() << "no caller was informed";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "metal backend: the GPU reports: Caused GPU Hang Error");
  }
  EXPECT_NO_THROW(timeline.step(tokens_of(shape, 0, 3), 3));
  EXPECT_GT(device->device_ns(), 0) << "GPUStartTime and GPUEndTime";
}

TEST_F(MetalDeviceOnAFake, LaunchesThatNobodyWaitedForEndWithTheDevice) {
  const auto device = open();
  const TestShape shape;
  const TestProgram test(shape, 1);
  const auto executable = std::move(compile(device, test.program, {}).value());
  const auto state =
      std::move(MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 1}).value());
  TestTimeline timeline(*executable, *state, {0}, 0);
  const std::vector<std::int32_t> tokens = tokens_of(shape, 0, 3);
  const std::vector<Segment> segments = {timeline.segment(3, 3)};
  StepArgs args;
  args.tokens = tokens, args.segments = segments, args.logits = false;
  executable->submit(args, *state);
}

/// Compiled pipelines in a folder, between starts of the program.
class MetalPipelineArchive : public MetalDeviceOnAFake {
 protected:
  void SetUp() override {
    MetalDeviceOnAFake::SetUp();
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = (fs::path(testing::TempDir()) / fmt::format("pipelines_{}_{}", ::getpid(), test->name()));
    fs::remove_all(folder_);
  }
  void TearDown() override {
    MetalDeviceOnAFake::TearDown();
    fs::remove_all(folder_);
  }
  /// A start with one model: pipelines compiled, and taken from the archive.
  std::pair<int, int> start(const TestShape& shape = {}, FakeGpu gpu = {}) const {
    EXPECT_EQ(text_of(fake_gpu().breaches), "");
    reset_fake_gpu(std::move(gpu));
    answer_of(open(folder_), shape);
    EXPECT_EQ(living_objects(), "");
    return {fake_gpu().compiled, fake_gpu().from_archive};
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }

  std::string folder_;
};

TEST_F(MetalPipelineArchive, ASecondStartCompilesNone) {
  const auto [compiled, found] = start();
  EXPECT_GT(compiled, 10);
  EXPECT_EQ(found, 0);
  EXPECT_EQ(files().size(), 1U) << "one file, and nothing half written";
  EXPECT_EQ(start(), std::pair(0, compiled));
}

TEST_F(MetalPipelineArchive, AnotherModelAddsWhatItNeedsBeside) {
  const auto [compiled, none] = start();
  const auto [more, found] = start(TestShape::mixture());
  EXPECT_GT(more, 0);
  EXPECT_GT(found, 0);
  EXPECT_EQ(start(), std::pair(0, compiled)) << "the pipelines of the first are still there";
  EXPECT_EQ(start(TestShape::mixture()), std::pair(0, more + found));
}

TEST_F(MetalPipelineArchive, ADamagedFileIsCompiledAndWrittenAgain) {
  const int compiled = start().first;
  std::ofstream(files()[0]) << "torn";
  EXPECT_EQ(start(), std::pair(compiled, 0));
  EXPECT_EQ(start(), std::pair(0, compiled));
}

TEST_F(MetalPipelineArchive, AnotherGpuHasAFileOfItsOwn) {
  const int compiled = start().first;
  EXPECT_EQ(start({}, {.name = "Apple M4"}), std::pair(compiled, 0));
  EXPECT_EQ(files().size(), 2U);
  EXPECT_EQ(start(), std::pair(0, compiled));
}

TEST_F(MetalPipelineArchive, WithoutArchivesOrAFolderEverythingIsCompiled) {
  const int compiled = start().first;
  EXPECT_EQ(start({}, {.has_archives = false}), std::pair(compiled, 0));
  fs::remove_all(folder_);
  std::ofstream(folder_) << "a file where the folder should be";
  EXPECT_EQ(start(), std::pair(compiled, 0));
  folder_.clear();
  EXPECT_EQ(start(), std::pair(compiled, 0));
}

}  // namespace
}  // namespace ft::metal::device_test
