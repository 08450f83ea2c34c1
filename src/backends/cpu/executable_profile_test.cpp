// A profiler receives every operation of every worker of a step, in order of time.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::executable_profile_test {
namespace {

/// Keeps all records.
class Listener final : public Profiler {
 public:
  int compiled(const Program& program, std::vector<ProfiledOperation> list, int count) override {
    instructions = static_cast<int>(program.instructions().size());
    operations = std::move(list), workers = count;
    return 41;
  }
  void stepped(const ProfiledStep& told) override {
    step = told;
    times.assign(told.times.begin(), told.times.end());
  }
  std::vector<ProfiledOperation> operations;
  std::vector<OperationTime> times;
  ProfiledStep step;
  int instructions = 0, workers = 0;
};

TEST(CpuExecutable, TellsAProfilerWhenEveryWorkerDidWhat) {
  const TestProgram test(TestShape{}, 5);
  Listener listener;
  const auto backend = std::move(make_backend({.name = "cpu", .threads = 2}).value());
  const auto executable = std::move(
      backend->compile(test.program, {.max_rows = 8, .max_logit_rows = 8, .profiler = &listener}).value());
  const auto state = std::move(backend->make_state(test.program.layout(), {.slots = 1, .blocks = 4}).value());
  TestTimeline timeline(*executable, *state, {0, 1, 2, 3}, 0);
  timeline.step({1, 2, 3}, 3);
  ASSERT_EQ(listener.times.size(), listener.operations.size() * 2);
  EXPECT_EQ(listener.workers, 2);
  EXPECT_EQ(listener.step.executable, 41);
  EXPECT_EQ(listener.step.rows, 3);
  EXPECT_EQ(listener.step.logit_rows, 3);
  EXPECT_EQ(listener.operations.front().name, "rotary");  // made before the first instruction
  EXPECT_EQ(listener.operations.back().name, "sample");
  EXPECT_EQ(listener.operations.back().instruction, listener.instructions - 1);
  for (std::size_t worker = 0; worker < 2; ++worker) {
    std::int64_t now = listener.step.begin_ns;
    for (std::size_t i = 0; i < listener.operations.size(); ++i) {
      const OperationTime& time = listener.times[worker * listener.operations.size() + i];
      EXPECT_LE(now, time.begin_ns) << listener.operations[i].name;
      EXPECT_LE(time.begin_ns + time.waited_ns, time.end_ns) << listener.operations[i].name;
      EXPECT_LE(time.end_ns, time.left_ns) << listener.operations[i].name;
      now = time.left_ns;
    }
    EXPECT_LE(now, listener.step.end_ns);
  }
}

}  // namespace
}  // namespace ft::executable_profile_test
