// The row rule and the state rule on complete programs, on every backend of this machine: the logits have the
// same bits for every division of a text into steps, with any drafts and rejections, and next to any
// sequences of the same step.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

#include "backends/cuda/emulator/emulator.h"
#include "backends/registry.h"
#include "tests/toy_model.h"
#include "timeline/timeline.h"

namespace ft::test::row_rule_test {
namespace {

constexpr int kTokens = 75;  // more than two blocks

struct Machine {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executable> target;
  std::unique_ptr<State> state;
  std::unique_ptr<TimelinePool> pool;
};

class RowRule : public testing::TestWithParam<BackendOptions> {
 protected:
  Machine make(const BackendOptions& options) {
    Machine machine;
    machine.backend = std::move(*make_backend(options));
    machine.target = std::move(*machine.backend->compile(model_.target, {96, 96}));
    const StateOptions state{3, 24};
    machine.state = std::move(*machine.backend->make_state(model_.target.layout(), state));
    machine.pool = std::make_unique<TimelinePool>(*machine.state, state);
    return machine;
  }

  std::vector<std::int32_t> text(unsigned seed) const {
    std::mt19937 random(seed);
    std::vector<std::int32_t> tokens(kTokens);
    for (auto& token : tokens) token = static_cast<std::int32_t>(random() % 101);
    return tokens;
  }

  /// Runs one segment and returns the logits of its rows.
  std::vector<float> step(Machine& m, const Segment& segment, std::span<const std::int32_t> tokens) {
    std::vector<std::int32_t> logit_rows;
    for (int i = 0; i < segment.rows; ++i) logit_rows.push_back(i);
    const StepResult result =
        m.target->run(StepArgs{tokens, {}, {&segment, 1}, logit_rows, {}, {}}, *m.state);
    return {result.logits.begin(), result.logits.end()};
  }

  /// One row at a time; every other division must give the same bits.
  std::vector<float> plain(Machine& m, std::span<const std::int32_t> tokens) {
    Timeline timeline = std::move(*Timeline::open(*m.pool));
    std::vector<float> all;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      Txn txn = std::move(*timeline.begin(1, 1));
      const std::vector<float> row = step(m, txn.segment(), tokens.subspan(i, 1));
      txn.commit(1);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  ToyModel model_;
};

TEST_P(RowRule, AnyChunkSizeGivesTheSameBits) {
  Machine m = make(GetParam());
  const auto tokens = text(1);
  const std::vector<float> expected = plain(m, tokens);
  for (int chunk = 1; chunk <= 17; ++chunk) {
    Timeline timeline = std::move(*Timeline::open(*m.pool));
    std::vector<float> all;
    for (int done = 0; done < kTokens; done += chunk) {
      const int rows = std::min(chunk, kTokens - done);
      Txn txn = std::move(*timeline.begin(rows, rows));
      const auto part =
          step(m, txn.segment(),
               std::span(tokens).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(rows)));
      txn.commit(rows);
      all.insert(all.end(), part.begin(), part.end());
    }
    ASSERT_EQ(all, expected) << "chunk " << chunk;
  }
}

TEST_P(RowRule, RejectedRowsLeaveNothingBehind) {
  Machine m = make(GetParam());
  const auto tokens = text(2);
  const std::vector<float> expected = plain(m, tokens);
  const std::size_t vocabulary = expected.size() / kTokens;
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    Timeline timeline = std::move(*Timeline::open(*m.pool));
    int done = 0;
    while (done < kTokens) {
      const int confirmed = static_cast<int>(random() % 3);
      const int drafted = static_cast<int>(random() % (kMaxTapeRows + 1));
      const int rows = std::min(kTokens - done, std::max(1, confirmed + drafted));
      const int sure = std::min(confirmed, rows);
      if (rows - sure > kMaxTapeRows) continue;
      const int keep = sure + static_cast<int>(random() % static_cast<unsigned>(rows - sure + 1));
      std::vector<std::int32_t> step_tokens(tokens.begin() + done, tokens.begin() + done + rows);
      for (int i = keep; i < rows; ++i)
        step_tokens[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(random() % 101);
      if (random() % 4 == 0) {  // a transaction that never ran changes nothing
        Txn idle = std::move(*timeline.begin(1, 1));
        idle.rollback();
      }
      Txn txn = std::move(*timeline.begin(rows, sure));
      const auto part = step(m, txn.segment(), step_tokens);
      txn.commit(keep);
      for (int i = 0; i < keep; ++i) {
        const auto at = static_cast<std::size_t>(i) * vocabulary;
        ASSERT_TRUE(std::equal(
            part.begin() + static_cast<std::ptrdiff_t>(at),
            part.begin() + static_cast<std::ptrdiff_t>(at + vocabulary),
            expected.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(done + i) * vocabulary)))
            << "trial " << trial << " position " << done + i;
      }
      done += keep;
    }
  }
}

TEST_P(RowRule, NeighboursInTheStepChangeNothing) {
  Machine m = make(GetParam());
  const auto first = text(3);
  const auto second = text(4);
  const std::vector<float> expected_first = plain(m, first);
  const std::vector<float> expected_second = plain(m, second);
  const std::size_t vocabulary = expected_first.size() / kTokens;
  Timeline a = std::move(*Timeline::open(*m.pool));
  Timeline b = std::move(*Timeline::open(*m.pool));
  int done_a = 0;
  int done_b = 0;
  std::mt19937 random(5);
  while (done_a < kTokens && done_b < kTokens) {
    const int rows_a = std::min(kTokens - done_a, 1 + static_cast<int>(random() % 5));
    const int rows_b = std::min(kTokens - done_b, 1 + static_cast<int>(random() % 9));
    Txn txn_a = std::move(*a.begin(rows_a, rows_a));
    Txn txn_b = std::move(*b.begin(rows_b, rows_b));
    const Segment segments[] = {txn_b.segment(), txn_a.segment()};
    std::vector<std::int32_t> tokens(second.begin() + done_b, second.begin() + done_b + rows_b);
    tokens.insert(tokens.end(), first.begin() + done_a, first.begin() + done_a + rows_a);
    std::vector<std::int32_t> logit_rows;
    for (int i = 0; i < rows_a + rows_b; ++i) logit_rows.push_back(i);
    const StepResult result = m.target->run(StepArgs{tokens, {}, segments, logit_rows, {}, {}}, *m.state);
    const float* got = result.logits.data();
    ASSERT_TRUE(std::equal(got, got + static_cast<std::size_t>(rows_b) * vocabulary,
                           expected_second.data() + static_cast<std::size_t>(done_b) * vocabulary));
    ASSERT_TRUE(std::equal(got + static_cast<std::size_t>(rows_b) * vocabulary,
                           got + static_cast<std::size_t>(rows_a + rows_b) * vocabulary,
                           expected_first.data() + static_cast<std::size_t>(done_a) * vocabulary));
    txn_a.commit(rows_a);
    txn_b.commit(rows_b);
    done_a += rows_a;
    done_b += rows_b;
  }
}

TEST_P(RowRule, AForkGoesOnWithTheSameBits) {
  Machine m = make(GetParam());
  const auto tokens = text(6);
  const std::vector<float> expected = plain(m, tokens);
  const std::size_t vocabulary = expected.size() / kTokens;
  for (const int at : {1, 31, 32, 33, 50}) {
    Timeline original = std::move(*Timeline::open(*m.pool));
    Txn txn = std::move(*original.begin(at + 3, at));
    std::vector<std::int32_t> start(tokens.begin(), tokens.begin() + at);
    start.insert(start.end(), {tokens[static_cast<std::size_t>(at)], 5, 6});
    step(m, txn.segment(), start);
    txn.commit(at + 1);  // one row of the tape remains to be replayed
    Timeline fork = std::move(*original.fork());
    for (Timeline* timeline : {&original, &fork}) {
      for (int p = at + 1; p < kTokens; ++p) {
        Txn next = std::move(*timeline->begin(1, 1));
        const auto row = step(m, next.segment(), std::span(tokens).subspan(static_cast<std::size_t>(p), 1));
        next.commit(1);
        ASSERT_TRUE(std::equal(
            row.begin(), row.end(),
            expected.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * vocabulary)))
            << "fork at " << at << " position " << p;
      }
    }
  }
}

TEST_P(RowRule, ThreadsChangeNothing) {
  BackendOptions two = GetParam();
  two.threads = 2;
  Machine one = make(GetParam());
  Machine many = make(two);
  const auto tokens = text(8);
  EXPECT_EQ(plain(one, tokens), plain(many, tokens));
}

std::vector<BackendOptions> machines() {
#if FORETOKEN_EMULATES_CUDA
  // Minutes: backends/cuda/instruction_test.cpp has the same rule on it in seconds.
  if (const char* const full = std::getenv("FORETOKEN_FULL"); full != nullptr && *full == '1')
    cuda::offer_emulated_device();
#endif
  std::vector<BackendOptions> all = {{"ref", 1}};
  for (const char* isa : {"auto", "amx", "avx512bf16", "avx512vnni", "avx512", "avx2", "neoni8mm", "neondot",
                          "neon", "portable"}) {
    for (const int kv_bits : {16, 8}) {
      const BackendOptions options{
          .name = "cpu", .threads = 1, .settings = {{"isa", isa}, {"kv-bits", kv_bits}}};
      if (make_backend(options).ok()) all.push_back(options);
    }
  }
  for (const char* device : {"emulated", "0"}) {
    for (const int kv_bits : {16, 8}) {
      const BackendOptions options{.name = "cuda", .settings = {{"device", device}, {"kv-bits", kv_bits}}};
      if (make_backend(options).ok()) all.push_back(options);
    }
    const BackendOptions half{.name = "cuda", .settings = {{"device", device}, {"activations", 16}}};
    if (make_backend(half).ok()) all.push_back(half);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Backends, RowRule, testing::ValuesIn(machines()), [](const auto& machine) {
  const BackendSettings& settings = machine.param.settings;
  const std::string which = settings.value("device", "0") == "0" ? "auto" : settings.value("device", "0");
  const bool codes = settings.value("kv-bits", "16") == "8";
  return machine.param.name + "_" + settings.value("isa", which) + (codes ? "_kv8" : "") +
         (settings.value("activations", "8") == "16" ? "_half" : "");
});

}  // namespace
}  // namespace ft::test::row_rule_test
