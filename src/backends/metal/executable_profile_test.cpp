// A profiler receives every instruction of a step, the device's own time and the host's wait.
#include <gtest/gtest.h>

#include "backends/metal/executable.h"
#include "backends/metal/forwarding_device.h"
#include "backends/metal/test_tokens.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::metal::executable_profile_test {
namespace {

/// The twin, which reports a nanosecond on the device for every wait.
class OneNanosecond final : public ForwardingDevice {
 public:
  OneNanosecond() : ForwardingDevice(open_twin_device()) {}
  std::int64_t device_ns() const override { return 1; }
};

/// Keeps all records.
class Listener final : public Profiler {
 public:
  int compiled(const Program&, std::vector<ProfiledOperation> list, int count) override {
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
  int workers = 0;
};

std::vector<float> logits(const std::shared_ptr<Device>& device, Profiler* profiler, int rows) {
  const TestShape shape;
  const TestProgram test(shape, 5);
  const auto executable = std::move(
      compile(device, test.program, {.max_rows = 24, .max_logit_rows = 24, .profiler = profiler}).value());
  const auto state =
      std::move(MetalState::make(device, test.program.layout(), {.slots = 1, .blocks = 4}).value());
  TestTimeline timeline(*executable, *state, {0, 1, 2, 3}, 0);
  return timeline.step(tokens_of(shape, 0, rows), rows);
}

TEST(MetalExecutable, TellsAProfilerTheDevicesTimeOfEveryInstruction) {
  Listener listener;
  logits(std::make_shared<OneNanosecond>(), &listener, 3);
  EXPECT_EQ(listener.workers, 1);
  EXPECT_EQ(listener.step.executable, 41);
  EXPECT_EQ(listener.step.rows, 3);
  EXPECT_EQ(listener.step.logit_rows, 3);
  ASSERT_EQ(listener.times.size(), listener.operations.size());
  EXPECT_EQ(listener.operations.front().name, "embed");
  EXPECT_EQ(listener.operations.back().name, "sample");
  std::int64_t now = listener.step.begin_ns;
  for (std::size_t i = 0; i < listener.times.size(); ++i) {
    const OperationTime& time = listener.times[i];
    EXPECT_EQ(listener.operations[i].instruction, static_cast<int>(i));
    EXPECT_LE(now, time.begin_ns);
    EXPECT_EQ(time.end_ns - time.begin_ns, i + 1 < listener.times.size() ? 1 : time.left_ns - time.begin_ns);
    EXPECT_LE(time.end_ns, time.left_ns);
    now = time.left_ns;
  }
  EXPECT_LE(now, listener.step.end_ns);
}

TEST(MetalExecutable, AProfilerChangesNoBit) {
  for (const int rows : {1, 3, 24}) {
    Listener listener;
    EXPECT_EQ(logits(open_twin_device(), &listener, rows), logits(open_twin_device(), nullptr, rows));
    EXPECT_GT(listener.times[0].left_ns, listener.times[0].begin_ns);
  }
}

}  // namespace
}  // namespace ft::metal::executable_profile_test
