// What a profiler receives from a step: the device's time of every instruction, one after the other.
#include <gtest/gtest.h>

#include "backends/cuda/test_devices.h"
#include "backends/test_programs.h"
#include "backends/test_timeline.h"

namespace ft::profile_test {
namespace {

/// Keeps what it receives.
class Listener final : public Profiler {
 public:
  int compiled(const Program& /*program*/, std::vector<ProfiledOperation> list, int count) override {
    operations = std::move(list), workers = count;
    return 41;
  }
  void stepped(const ProfiledStep& told) override {
    step = told;
    times.assign(told.times.begin(), told.times.end());
    ++steps;
  }
  std::vector<ProfiledOperation> operations;
  std::vector<OperationTime> times;
  ProfiledStep step;
  int workers = 0, steps = 0;
};

class CudaProfile : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
    backend_ = std::move(cuda_on(GetParam()).value());
  }
  /// Steps of `rows` rows, six times: as graphs too.
  std::vector<float> logits(Profiler* profiler, int rows) {
    const auto executable = std::move(
        backend_->compile(test_.program, {.max_rows = 70, .max_logit_rows = 70, .profiler = profiler})
            .value());
    const auto state =
        std::move(backend_->make_state(test_.program.layout(), {.slots = 1, .blocks = 16}).value());
    std::vector<std::int32_t> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(i);
    TestTimeline timeline(*executable, *state, blocks, 0);
    std::vector<float> last;
    for (int i = 0; i < 6; ++i) {
      last = timeline.step(std::vector<std::int32_t>(static_cast<std::size_t>(rows), i + 1), rows);
      timeline.keep(rows, 0);
    }
    return last;
  }

  std::unique_ptr<Backend> backend_;
  TestProgram test_{TestShape{}, 5};
};

TEST_P(CudaProfile, TellsAProfilerTheDevicesTimeOfEveryInstruction) {
  for (const int rows : {3, 70}) {
    Listener listener;
    logits(&listener, rows);
    EXPECT_EQ(listener.workers, 1);
    EXPECT_EQ(listener.steps, 6);
    EXPECT_EQ(listener.step.executable, 41);
    EXPECT_EQ(listener.step.rows, rows);
    EXPECT_EQ(listener.step.logit_rows, rows);
    ASSERT_EQ(listener.times.size(), listener.operations.size());
    ASSERT_EQ(listener.operations.size(), test_.program.instructions().size() + 1);
    std::int64_t now = listener.step.begin_ns;
    for (std::size_t i = 0; i < listener.times.size(); ++i) {
      EXPECT_EQ(listener.operations[i].instruction, static_cast<int>(i) - 1);
      EXPECT_EQ(listener.times[i].begin_ns, now);
      EXPECT_GE(listener.times[i].end_ns, now);
      now = listener.times[i].left_ns;
    }
    EXPECT_EQ(now, listener.step.end_ns);
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}})
      EXPECT_GT(listener.times[first].end_ns, listener.times[first].begin_ns) << first;
  }
}

TEST_P(CudaProfile, AProfilerChangesNoBit) {
  for (const int rows : {1, 3, 24}) {
    Listener listener;
    EXPECT_EQ(logits(&listener, rows), logits(nullptr, rows));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaProfile, testing::ValuesIn(cuda_devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

}  // namespace
}  // namespace ft::profile_test
