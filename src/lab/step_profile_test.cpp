#include "lab/step_profile.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program/program.h"

namespace ft::step_profile_test {
namespace {

Weight matrix(std::int64_t rows, std::int64_t cols) {
  static const std::byte kNothing{};  // only the sizes matter
  Weight weight;
  weight.format = Format::kBf16;
  weight.rows = rows, weight.cols = cols;
  weight.data = &kNothing;
  return weight;
}

/// Two workers run four operations of 10 ns; the second worker ends 4 ns early and waits.
class StepProfileTest : public ::testing::Test {
 protected:
  StepProfileTest() {
    Row x = program_.input(8);
    x = program_.linear(x, {matrix(8, 8)})[0];
    x = program_.linear(x, {matrix(8, 8)})[0];
    program_.logits(x, matrix(16, 8));
    id_ = profile_.compiled(program_, {{"rotary", -1}, {"linear", 1}, {"linear", 2}, {"logits", 3}}, 2);
  }
  void step(int rows, int logit_rows) {
    std::vector<OperationTime> times;
    for (int worker = 0; worker < 2; ++worker) {
      for (std::int64_t begin = 0; begin < 40; begin += 10) {
        times.push_back({begin, begin + (worker == 0 ? 10 : 6), begin + 10, 0});
      }
    }
    profile_.stepped({id_, rows, logit_rows, -5, 45, times});
  }
  Program program_;
  StepProfile profile_;
  int id_ = 0;
};

TEST_F(StepProfileTest, SumsByLabelAndRows) {
  step(1, 1), step(1, 1), step(4, 0);
  const std::vector<ProfileTable> tables = profile_.tables();
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].rows, 1);
  EXPECT_EQ(tables[0].steps, 2);
  EXPECT_DOUBLE_EQ(tables[0].step_ms, 100e-6);
  const ProfileLine& longest = tables[0].lines.front();
  EXPECT_EQ(longest.label, "linear 8 -> 8");
  EXPECT_EQ(longest.calls, 4);
  EXPECT_DOUBLE_EQ(longest.ms, 40e-6);
  EXPECT_DOUBLE_EQ(longest.barrier_ms, 8e-6);  // 4 ns of one of two workers, four times
  EXPECT_DOUBLE_EQ(longest.bytes, 4 * 8 * 8 * 2);
}

TEST_F(StepProfileTest, LogitsThatNobodyWantsReadNothing) {
  step(4, 0);
  const ProfileTable table = profile_.tables().front();
  for (const ProfileLine& line : table.lines) {
    EXPECT_EQ(line.bytes == 0, line.label != "linear 8 -> 8") << line.label;
  }
}

TEST_F(StepProfileTest, TheTraceHoldsEveryWorkersEvents) {
  step(1, 1);
  const auto events = nlohmann::json::parse(profile_.trace_json())["traceEvents"];
  ASSERT_EQ(events.size(), 8U);  // waits of 4 ns are too short to show
  EXPECT_EQ(events[0]["name"], "rotary");
  EXPECT_EQ(events[7]["tid"], 1);
  EXPECT_EQ(events[7]["args"]["rows"], 1);
}

}  // namespace
}  // namespace ft::step_profile_test
