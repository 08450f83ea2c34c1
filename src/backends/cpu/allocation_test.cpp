// A step of the CPU backend allocates nothing.
#include <gtest/gtest.h>
#include <thread>

#include "backends/registry.h"
#include "backends/test_programs.h"
#include "tests/counted_allocations.h"

namespace ft::allocation_test {
namespace {

void expect_steps_allocate_nothing(const BackendOptions& options) {
  const TestProgram test(TestShape{}, 12);
  auto backend = std::move(make_backend(options).value());
  auto executable = std::move(backend->compile(test.program, {.max_rows = 32, .max_logit_rows = 4}).value());
  auto state = std::move(backend->make_state(test.program.layout(), {.slots = 1, .blocks = 4}).value());
  const std::vector<std::int32_t> blocks = {0, 1, 2, 3};
  SamplingParams sampler;
  sampler.temperature = 1;
  sampler.top_k = 5;
  SampleRow row;
  row.sampler = &sampler;
  const std::vector<SampleRow> samples(3, row);
  const std::vector<std::int32_t> logit_rows = {0, 1, 2};
  std::vector<std::int32_t> tokens(19, 4);
  std::int64_t position = 0;
  for (int step = 0; step < 6; ++step) {
    const std::vector<Segment> segments = {{{blocks, 0, 0, step % 2}, position, 19, 16}};
    StepArgs args;
    args.tokens = tokens;
    args.segments = segments;
    args.logit_rows = logit_rows;
    args.samples = samples;
    const long before = test::allocations.load();
    const StepResult result = executable->run(args, *state);
    if (step > 0) {
      EXPECT_EQ(test::allocations.load(), before) << "step " << step;
    }
    EXPECT_EQ(result.sampled.size(), 3U);
    position += 16;
  }
  EXPECT_GT(test::allocations.load(), 0);  // proves that the counter counts
}

// With more threads than cores: the pool then does not watch for other programs, whose arrival it would log.
TEST(CpuExecutable, AllocatesNothingInAStep) {
  const int threads = static_cast<int>(std::thread::hardware_concurrency()) + 1;
  for (const int kv_bits : {16, 8}) {
    expect_steps_allocate_nothing({.name = "cpu", .threads = threads, .settings = {{"kv-bits", kv_bits}}});
  }
}

}  // namespace
}  // namespace ft::allocation_test
