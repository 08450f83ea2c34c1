// Steps that are submitted without waiting, on a device that runs nothing until a caller waits: the same bits
// as one step at a time. Errors of the device reach the waiting caller. No pipeline is made in the middle of
// an answer.
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdexcept>

#include "backends/metal/backend.h"
#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/metal/gpu_facts.h"
#include "backends/metal/late_device.h"
#include "backends/metal/test_tokens.h"
#include "backends/test_timeline.h"
#include "tests/full_run.h"

namespace ft::metal::late_test {
namespace {

constexpr int kTokens = 40;

Made make(const std::shared_ptr<Device>& device, const Program& program) {
  return {std::move(compile(device, program, {.max_rows = 24, .max_logit_rows = 24}).value()),
          std::move(MetalState::make(device, program.layout(), {.slots = 2, .blocks = 6}).value())};
}

/// A prompt in chunks without waiting, then its last rows: their logits, and the bytes of the state.
std::pair<std::vector<float>, std::vector<std::byte>> prompt_by(const Made& made, const TestShape& shape,
                                                                int chunk, bool waits) {
  TestTimeline timeline(*made.executable, *made.state, {3, 0, 5}, 1);
  constexpr int kLast = 4;
  for (int at = 0; at < kTokens - kLast; at += chunk) {
    const int rows = std::min(chunk, kTokens - kLast - at);
    const std::vector<std::int32_t> tokens = tokens_of(shape, at, rows);
    const std::vector<Segment> segments = {timeline.segment(rows, rows)};
    StepArgs args;
    args.tokens = tokens, args.segments = segments, args.logits = false;
    made.executable->submit(args, *made.state);
    if (waits) made.executable->collect();
    timeline.keep(rows, 0);
  }
  std::vector<std::byte> slot(static_cast<std::size_t>(made.state->slot_bytes()));
  made.state->read_slot(1, slot);
  return {timeline.step(tokens_of(shape, kTokens - kLast, kLast), kLast), slot};
}

std::vector<TestShape> shapes() {
  return {TestShape{}, TestShape::odd(), TestShape::shared(), TestShape::mixture()};
}

TEST(MetalLate, ChunksThatNobodyWaitsForHaveTheSameBits) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  for (const TestShape& shape : shapes()) {
    const TestProgram test(shape, 2);
    const auto expected = prompt_by(make(open_twin_device(), test.program), shape, 5, true);
    for (const int chunk : {1, 5, 20}) {
      const auto device = std::make_shared<Late>();
      const auto got = prompt_by(make(device, test.program), shape, chunk, false);
      EXPECT_EQ(got.first, expected.first) << "by " << chunk;
      EXPECT_EQ(got.second, expected.second) << "the state, by " << chunk;
      EXPECT_GE(device->submitted, (kTokens - 4) / chunk);
    }
  }
}

TEST(MetalLate, ThreeStepsWaitAtOnceAndTheNextWaitsForTheFirstAlone) {
  const TestShape shape;
  const TestProgram test(shape, 2);
  const auto device = std::make_shared<Late>();
  const Made made = make(device, test.program);
  TestTimeline timeline(*made.executable, *made.state, {3, 0, 5}, 1);
  for (int step = 1; step <= 8; ++step) {
    const std::vector<std::int32_t> tokens = tokens_of(shape, 5 * step, 5);
    const std::vector<Segment> segments = {timeline.segment(5, 5)};
    StepArgs args;
    args.tokens = tokens, args.segments = segments, args.logits = false;
    made.executable->submit(args, *made.state);
    timeline.keep(5, 0);
    EXPECT_EQ(device->waiting(), std::min(step, 3)) << "after step " << step;
  }
  made.executable->collect();
  EXPECT_EQ(device->waiting(), 0);
}

TEST(MetalLate, ALongStepIsSeveralCommandBuffers) {
  TestShape shape;
  shape.layers = 6;
  const TestProgram test(shape, 2);
  const auto device = std::make_shared<Late>();
  const Made made = make(device, test.program);
  TestTimeline timeline(*made.executable, *made.state, {3, 0, 5}, 1);
  const std::int64_t before = device->submitted;
  timeline.step(tokens_of(shape, 0, 2), 2);
  EXPECT_EQ(device->submitted, before + 1);
  timeline.keep(2, 0);
  timeline.step(tokens_of(shape, 2, 20), 20);
  EXPECT_GT(device->submitted, before + 2);
}

/// A GPU that reports the time of the longest command buffer.
class Slow final : public ForwardingDevice {
 public:
  Slow() : ForwardingDevice(open_twin_device()) {}
  std::int64_t submit() override { return ++submitted; }
  std::int64_t longest_ns() const override { return ns; }

  std::int64_t submitted = 0;
  std::int64_t ns = 0;
};

TEST(MetalLate, TheCommandBuffersOfALongStepAimAtATenthOfASecond) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  constexpr std::int64_t kTenth = 100'000'000;
  TestShape shape;
  shape.layers = 6;
  const TestProgram test(shape, 2);
  const auto device = std::make_shared<Slow>();
  const Made made = make(device, test.program);
  TestTimeline timeline(*made.executable, *made.state, {3, 0, 5, 1, 2}, 1);
  int at = 0;
  const auto command_buffers = [&](int rows) {
    const std::int64_t before = device->submitted;
    timeline.step(tokens_of(shape, at, rows), rows);
    timeline.keep(rows, 0);
    at += rows;
    return device->submitted - before;
  };
  const std::int64_t first = command_buffers(20), instructions = std::ssize(test.program.instructions());
  ASSERT_EQ(first, instructions / 64 + 1);
  device->ns = 8 * kTenth;  // of 64 instructions: 8 are a tenth of a second
  command_buffers(20);
  EXPECT_EQ(command_buffers(20), instructions / 8 + 1);
  EXPECT_EQ(command_buffers(2), 1) << "a short step is one";
  device->ns = 1000 * kTenth;
  command_buffers(20);
  EXPECT_EQ(command_buffers(20), instructions + 1) << "at least one instruction";
  device->ns = kTenth / 1000;
  command_buffers(20);
  EXPECT_EQ(command_buffers(20), first) << "at most 64 instructions";
}

TEST(MetalLate, AnErrorOfTheGpuReachesTheOneWhoWaitsAndTheNextStepIsRight) {
  const TestShape shape = TestShape::odd();
  const TestProgram test(shape, 3);
  const Made twin = make(open_twin_device(), test.program);
  TestTimeline there(*twin.executable, *twin.state, {3, 0, 5}, 1);
  const std::vector<float> expected = there.step(tokens_of(shape, 0, 7), 7);
  const auto device = std::make_shared<Late>();
  const Made made = make(device, test.program);
  TestTimeline lost(*made.executable, *made.state, {3, 0, 5}, 1);
  device->fails = true;
  try {
    lost.step(tokens_of(shape, 9, 5), 5);
    FAIL() << "no caller was informed";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "metal backend: the GPU reports: it was reset");
  }
  TestTimeline again(*made.executable, *made.state, {3, 0, 5}, 1);
  EXPECT_EQ(again.step(tokens_of(shape, 0, 7), 7), expected);
}

/// Tells whether a step asks for a kernel that compile() did not ask for.
class Watched final : public ForwardingDevice {
 public:
  Watched() : ForwardingDevice(open_twin_device()) {}
  std::size_t asked() const { return names().size(); }
};

TEST(MetalPipelines, AStepMakesNone) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  for (const int kv_bits : {16, 8}) {
    for (const TestShape& shape :
         {TestShape{}, TestShape::odd(), TestShape::widened(), TestShape::shared(), TestShape::mixture()}) {
      const TestProgram test(shape, 1);
      const auto device = std::make_shared<Watched>();
      const auto executable = std::move(compile(device, test.program, {.max_rows = 24}).value());
      const auto state = std::move(
          MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 2}, kv_bits).value());
      const std::size_t before = device->asked();
      TestTimeline timeline(*executable, *state, {0, 1}, 0);
      for (const int rows : {1, 2, 4, 8, 24}) {
        const std::vector<std::int32_t> tokens = tokens_of(shape, 0, rows);
        const std::vector<Segment> segments = {timeline.segment(rows, rows)};
        const std::vector<std::int32_t> logit_rows = {0};
        StepArgs args;
        SamplingParams sampler;
        sampler.temperature = 1, sampler.top_k = 5;
        SampleRow draft;
        draft.sampler = &sampler, draft.exact = false;
        args.tokens = tokens, args.segments = segments, args.logit_rows = logit_rows,
        args.samples = {&draft, 1};
        executable->run(args, *state);
        timeline.keep(rows, 0);
      }
      EXPECT_EQ(device->asked(), before);
    }
  }
}

/// A GPU whose compiler refuses one kernel.
class Without final : public ForwardingDevice {
 public:
  explicit Without(std::string kernel) : ForwardingDevice(open_twin_device()), kernel_(std::move(kernel)) {}
  std::string describe() const override { return "Apple M0"; }
  int kernel(std::string_view name) const override {
    return name == kernel_ ? -1 : ForwardingDevice::kernel(name);
  }

 private:
  std::string kernel_;
};

TEST(MetalPipelines, AKernelThatTheGpuRefusesIsASentence) {
  const TestProgram test(TestShape{}, 1);
  const auto problem = [&](const char* kernel) {
    const auto made = compile(std::make_shared<Without>(kernel), test.program, {});
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_NE(problem("conv").find("Apple M0 makes no pipeline of kernel conv; use --backend cpu"),
            std::string::npos)
      << problem("conv");
  EXPECT_NE(problem("linear_few4_affine4").find("no pipeline of a kernel for affine4 weights"),
            std::string::npos)
      << problem("linear_few4_affine4");
  EXPECT_EQ(problem("attend_chunk_16"), "");
}

/// A GPU whose registers allow fewer threads for one kernel.
class Narrow final : public ForwardingDevice {
 public:
  Narrow(std::string kernel, int max)
      : ForwardingDevice(open_twin_device()), kernel_(std::move(kernel)), max_(max) {}
  std::string describe() const override { return "Apple M0"; }
  int max_threads(int kernel) const override {
    return name_of(kernel) == kernel_ ? max_ : ForwardingDevice::max_threads(kernel);
  }

 private:
  std::string kernel_;
  int max_;
};

TEST(MetalPipelines, AKernelWithTooFewThreadsIsASentence) {
  const auto problem = [](const TestShape& shape, const char* kernel, int max) {
    const TestProgram test(shape, 1);
    const auto made = compile(std::make_shared<Narrow>(kernel, max), test.program, {});
    return made.ok() ? std::string() : made.error().message;
  };
  const TestShape shape;
  const int group = shape.heads / shape.kv_heads, pieces = (shape.head_dim + 31) / 32;
  const std::string chunk = fmt::format("attend_chunk_{}", pieces);
  EXPECT_EQ(problem(shape, chunk.c_str(), 32 * group), "");
  EXPECT_NE(problem(shape, chunk.c_str(), 32 * group - 32).find("Apple M0 runs kernel " + chunk),
            std::string::npos);
  EXPECT_NE(problem(shape, "rms_norm", 192).find("rms_norm with 192 threads at once, not 256"),
            std::string::npos);
  EXPECT_NE(problem(shape, "linear_few8_affine4", 192).find("no pipeline of a kernel for affine4 weights"),
            std::string::npos);
}

/// A GPU with a working set, counted as Metal counts it.
class Limited final : public ForwardingDevice {
 public:
  explicit Limited(std::uint64_t working_set)
      : ForwardingDevice(open_twin_device()), facts_{"Apple M0", 7, working_set, working_set} {}
  Result<Buffer> allocate(std::size_t bytes) override {
    FT_TRY(check_room(facts_, used, bytes));
    used += bytes;
    return inner().allocate(bytes);
  }
  void release(Buffer& buffer) override {
    used -= buffer.bytes;
    inner().release(buffer);
  }

  std::uint64_t used = 0;

 private:
  GpuFacts facts_;
};

TEST(MetalMemory, AModelBeyondTheWorkingSetIsRefusedAndLeavesNothing) {
  const TestProgram test(TestShape{}, 1);
  const auto all = std::make_shared<Limited>(1ULL << 40);
  const auto whole = std::move(compile(all, test.program, {}).value());
  const std::uint64_t needed = all->used;
  EXPECT_TRUE(compile(std::make_shared<Limited>(needed), test.program, {}).ok());
  for (const std::uint64_t limit : {needed - 1, needed / 2, std::uint64_t{1}}) {
    const auto device = std::make_shared<Limited>(limit);
    const auto made = compile(device, test.program, {});
    ASSERT_FALSE(made.ok()) << limit;
    EXPECT_EQ(made.error().code, Code::kExhausted) << made.error().message;
    EXPECT_NE(made.error().message.find("iogpu.wired_limit_mb"), std::string::npos) << made.error().message;
    EXPECT_EQ(device->used, 0U) << "memory that was not returned";
  }
  const auto full = std::make_shared<Limited>(needed);
  const auto executable = std::move(compile(full, test.program, {}).value());
  const auto state = MetalState::make(full, test.program.layout(), {.slots = 1, .blocks = 1});
  ASSERT_FALSE(state.ok()) << "the state counts in addition to the weights";
  EXPECT_EQ(state.error().code, Code::kExhausted);
}

}  // namespace
}  // namespace ft::metal::late_test
