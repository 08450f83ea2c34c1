// A backend without memory: every allocation of compile and make_state fails once, at each n, alone and with
// all later ones, on one worker and on several. The result is an error about memory; nothing leaks, and the
// next attempt computes the same.
#include <gtest/gtest.h>

#include "backends/registry.h"
#include "backends/test_programs.h"
#include "tests/anomaly/failing_memory.h"

namespace ft::test::backend_test {
namespace {

constexpr CompileOptions kCompile{8, 2};
constexpr StateOptions kState{2, 3};

struct Named {
  const char* name;
  BackendOptions options;
  friend void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }
};

class BackendAnomaly : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    backend_ = std::move(make_backend(GetParam().options).value());
    plain_ = logits();  // one-time initialisation happens here
    ASSERT_FALSE(plain_.empty());
  }

  std::vector<float> logits() {
    const auto executable = std::move(backend_->compile(test_.program, kCompile).value());
    const auto state = std::move(backend_->make_state(test_.program.layout(), kState).value());
    const std::int32_t tokens[] = {3, 1, 2};
    const std::int32_t logit_rows[] = {0, 2}, block = 0;
    const Segment segment{{{&block, 1}, 0, 0, 0}, 0, 3, 3};
    const StepResult result = executable->run({tokens, {}, {&segment, 1}, logit_rows, {}, {}}, *state);
    return {result.logits.begin(), result.logits.end()};
  }

  /// Makes each allocation of `make` fail; it must make at least `least` of them.
  template <class Make>
  void fail_each(Make make, long least) {
    for (const bool all_after : {false, true}) {
      long n = 1;
      for (bool reached = true; reached; ++n) {
        const long before = live_allocations();
        bool threw = false;
        {
          decltype(make()) made = Error{};
          plan_failure({n, all_after});
          try {
            made = make();
          } catch (...) {
            threw = true;
          }
          reached = stop_failing();
          ASSERT_FALSE(threw) << "allocation " << n;
          ASSERT_NE(made.ok(), reached) << "allocation " << n;
          if (reached) {
            EXPECT_EQ(made.error().code, Code::kExhausted) << made.error().message;
            EXPECT_NE(made.error().message.find("memory"), std::string::npos) << made.error().message;
          }
        }
        EXPECT_EQ(live_allocations(), before) << "allocation " << n << " leaks memory";
      }
      EXPECT_GT(n, least);
    }
    EXPECT_EQ(logits(), plain_);
  }

  const TestProgram test_{TestShape::odd(), 5};
  std::unique_ptr<Backend> backend_;
  std::vector<float> plain_;
};

TEST_P(BackendAnomaly, EveryAllocationOfCompileMayFail) {
  fail_each([&] { return backend_->compile(test_.program, kCompile); }, 100);
}

TEST_P(BackendAnomaly, EveryAllocationOfAStateMayFail) {
  const StateLayout layout = test_.program.layout();
  fail_each([&] { return backend_->make_state(layout, kState); }, 5);
}

TEST_P(BackendAnomaly, EveryAllocationOfABackendMayFail) {
  for (long n = 1, reached = 1; reached != 0; ++n) {
    const long before = live_allocations();
    {
      Result<std::unique_ptr<Backend>> made = Error{};
      plan_failure({n, false});
      EXPECT_NO_THROW(made = make_backend(GetParam().options)) << "allocation " << n;
      reached = stop_failing() ? 1 : 0;
      if (!made.ok()) {
        EXPECT_EQ(made.error().code, Code::kExhausted) << made.error().message;
      }
    }
    EXPECT_EQ(live_allocations(), before) << "allocation " << n << " leaks memory";
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendAnomaly,
                         testing::Values(Named{"ref", {.name = "ref"}},
                                         Named{"cpu_alone", {.name = "cpu", .threads = 1}},
                                         Named{"cpu_three", {.name = "cpu", .threads = 3}}),
                         [](const auto& named) { return std::string(named.param.name); });

}  // namespace
}  // namespace ft::test::backend_test
