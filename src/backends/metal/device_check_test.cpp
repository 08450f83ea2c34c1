// The self-test finds a device that computes wrong results, breaks the row rule or fails.
#include "backends/metal/device_check.h"

#include <cstring>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>

#include "backends/metal/backend.h"
#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/metal/test_tokens.h"
#include "backends/registry.h"
#include "backends/test_timeline.h"
#include "tests/full_run.h"

namespace ft::metal::device_check_test {
namespace {

/// The twin with a fault after each launch of one kernel.
class Faulty final : public ForwardingDevice {
 public:
  Faulty(std::string_view kernel, float added, bool throws)
      : ForwardingDevice(open_twin_device()),
        kernel_(inner().kernel(kernel)),
        added_(added),
        throws_(throws) {}
  std::string_view name() const override { return "metal"; }
  std::string describe() const override { return "Apple M0"; }
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    inner().dispatch(kernel, buffers, args, grid, threads);
    if (kernel != kernel_) return;
    if (throws_) throw std::runtime_error("the GPU was taken away");
    float value = 0;
    std::memcpy(&value, buffers.back().data(), sizeof value);
    value += added_ * (1 + std::abs(value));
    std::memcpy(buffers.back().data(), &value, sizeof value);
  }

 private:
  int kernel_;
  float added_;
  bool throws_;
};

std::string problem(const char* kernel, float added, bool throws = false) {
  const Status status = self_test(std::make_shared<Faulty>(kernel, added, throws));
  return status.ok() ? "" : status.error().message;
}

TEST(MetalSelfTest, TheTwinPasses) { EXPECT_EQ(problem("conv", 0), ""); }

TEST(MetalSelfTest, ResultsOfAnotherKindAreFound) {
  EXPECT_NE(problem("rms_norm", 3).find("differ by"), std::string::npos);
  EXPECT_NE(problem("attend_merge", 1e30F).find("Apple M0"), std::string::npos);
}

TEST(MetalSelfTest, ABitThatDependsOnTheNumberOfRowsIsFound) {
  EXPECT_NE(problem("linear_few2_affine5", 1e-6F).find("other bits among 2 rows"), std::string::npos);
  EXPECT_NE(problem("linear_many_affine5", 1e-6F).find("other bits among 1 rows"), std::string::npos);
}

/// The twin without one kernel.
class Lazy final : public ForwardingDevice {
 public:
  explicit Lazy(std::string kernel) : ForwardingDevice(open_twin_device()), kernel_(std::move(kernel)) {}
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    if (name_of(kernel) != kernel_) inner().dispatch(kernel, buffers, args, grid, threads);
  }

 private:
  std::string kernel_;
};

TEST(MetalSelfTest, DraftsThatAreNotThoseOfTheLogitsAreFound) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  for (const char* const kernel :
       {"draft_tops", "draft_keep", "draft_limit", "draft_scores", "draft_choice"}) {
    const Status status = self_test(std::make_shared<Lazy>(kernel));
    ASSERT_FALSE(status.ok()) << kernel;
    EXPECT_NE(status.error().message.find("drafts differ from its logits"), std::string::npos)
        << status.error().message;
  }
}

TEST(MetalSelfTest, AnErrorOfTheGpuIsASentence) {
  EXPECT_NE(problem("conv", 0, true).find("the GPU was taken away"), std::string::npos);
}

/// On a Mac whose GPU computes wrong results, --backend auto uses the processor and reports why.
TEST(MetalSelfTest, AutoTakesTheProcessorWithASentence) {
  std::string said;
  BackendOptions options;
  options.threads = 1;
  options.notice = [&said](const std::string& why) { said = why; };
  const auto chosen = [&](float added) {
    said.clear();
    auto made = choose_backend(
        options, make_tested_backend(std::make_shared<Faulty>("rms_norm", added, false), options));
    return std::string((*made)->name());
  };
  EXPECT_EQ(chosen(0), "metal");
  EXPECT_EQ(said, "");
  EXPECT_EQ(chosen(3), "cpu");
  EXPECT_TRUE(said.starts_with(
      "--backend auto falls back to the CPU: metal backend: Apple M0 fails the self-test: its results"))
      << said;
}

/// The names of all kernels that were launched.
class Launched final : public ForwardingDevice {
 public:
  Launched() : ForwardingDevice(open_twin_device()) {}
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    launched.insert(name_of(kernel));
    inner().dispatch(kernel, buffers, args, grid, threads);
  }
  std::set<std::string> launched;
};

std::vector<TestShape> kinds_of_models() {
  std::vector<TestShape> shapes = {TestShape{}, TestShape::widened(), TestShape::mixture(),
                                   TestShape::vision()};
  for (TestShape& shape : shapes) shape.layers = 2;
  for (const Format format : {Format::kF32, Format::kMxfp4, Format::kMxfp8}) {
    TestShape& shape = shapes.emplace_back(TestShape::odd());
    shape.matrices = format, shape.layers = 1;
  }
  return shapes;
}

TEST(MetalSelfTest, TheKernelsOfAProgramAreAsked) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  for (const TestShape& shape : kinds_of_models()) {
    const TestProgram test(shape, 1);
    const auto used = std::make_shared<Launched>(), asked = std::make_shared<Launched>();
    const auto executable = std::move(compile(used, test.program, {.max_rows = 24}).value());
    const auto state =
        std::move(MetalState::make(used, test.program.layout(), {.slots = 1, .blocks = 2}).value());
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
    const Status status = self_test(asked, shapes_of(test.program), 16);
    EXPECT_TRUE(status.ok()) << status.error().message;
    for (const std::string& kernel : used->launched) EXPECT_TRUE(asked->launched.contains(kernel)) << kernel;
  }
}

/// A kernel that the test at the start does not know.
TEST(MetalSelfTest, AModelWhoseKernelsAreWrongIsNotTaken) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  const TestProgram four_bits(TestShape{}, 1), five_bits(TestShape::odd(), 1);
  const auto gpu = std::make_shared<Faulty>("linear_few2_affine4", 1e-6F, false);
  const auto backend = std::move(make_tested_backend(gpu, {}).value());
  EXPECT_TRUE(backend->check_supported(five_bits.program).ok());
  const Status refused = backend->check_supported(four_bits.program);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("other bits among 2 rows"), std::string::npos)
      << refused.error().message;
  const auto compiled = backend->compile(four_bits.program, {});
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().message, refused.error().message);
}

}  // namespace
}  // namespace ft::metal::device_check_test
