// Whole programs on the twin of the metal backend: near the reference, the same bits however rows are cut
// into steps, drafts rejected without a trace, timelines that move to other blocks and slots; and the
// refusals.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <ostream>

#include "backends/instruction_programs.h"
#include "backends/metal/backend.h"
#include "backends/metal/test_tokens.h"
#include "backends/metal/twin/fibres.h"
#include "backends/metal/twin/kernels.h"
#include "backends/ref/backend.h"
#include "backends/registry.h"
#include "backends/test_timeline.h"
#include "tests/full_run.h"

namespace ft::program_test {
namespace {

constexpr int kTokens = 40;

std::unique_ptr<Backend> twin(int kv_bits = 16) {
  return std::move(make_metal_twin_backend({.settings = {{"kv-bits", kv_bits}}}).value());
}

Made make(Backend& backend, const Program& program) {
  return {std::move(backend.compile(program, {.max_rows = 48, .max_logit_rows = 48}).value()),
          std::move(backend.make_state(program.layout(), {.slots = 2, .blocks = 6}).value())};
}

/// Logits of kTokens positions by steps of `chunk`. The last `drafts` rows of each are drafts, which
/// `rejects` drops once after wrong tokens and then computes again.
std::vector<float> logits_by(const Made& made, const TestShape& shape, int chunk, int drafts, bool rejects) {
  TestTimeline timeline(*made.executable, *made.state, {3, 0, 5}, 1);
  std::vector<float> all;
  for (int at = 0; at < kTokens; at += chunk) {
    const int rows = std::min(chunk, kTokens - at), loose = std::min(drafts, rows - 1);
    if (rejects && loose > 0) {
      std::vector<std::int32_t> wrong = tokens_of(shape, at, rows - loose);
      for (int i = 0; i < loose; ++i) wrong.push_back((at + 7 * i) % shape.vocabulary);
      const std::vector<float> kept = timeline.step(wrong, rows - loose);
      timeline.keep(rows - loose, 0);
      all.insert(all.end(), kept.begin(), kept.begin() + std::ssize(kept) / rows * (rows - loose));
      const std::vector<float> again = timeline.step(tokens_of(shape, at + rows - loose, loose), loose);
      timeline.keep(loose, 0);
      all.insert(all.end(), again.begin(), again.end());
      continue;
    }
    const std::vector<float> logits = timeline.step(tokens_of(shape, at, rows), rows - loose);
    timeline.keep(rows - loose, loose);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

struct Kind {
  const char* name;
  TestShape shape;
  int kv_bits = 16;
  bool usual = true;  // in the usual run; the others have the same kernels in other sizes
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  TestShape plain = TestShape::odd();
  plain.bits = 0;
  TestShape recurrent = plain;
  recurrent.attention = false;
  return {{"usual", TestShape{}, 16, false},
          {"odd", TestShape::odd()},
          {"bf16", plain},
          {"recurrent", recurrent},
          {"widened", TestShape::widened(), 16, false},
          {"shared", TestShape::shared(), 16, false},
          {"mixture", TestShape::mixture()},
          {"odd_bytes", TestShape::odd(), 8},
          {"shared_bytes", TestShape::shared(), 8, false}};
}

TEST(MetalProgram, AgreesWithTheReference) {
  for (const auto& [name, shape, kv_bits, _] : kinds()) {
    if (kv_bits != 16) continue;  // tested separately below
    SCOPED_TRACE(name);
    const TestProgram test(shape, 1);
    const auto reference = make_ref_backend();
    const std::vector<float> expected = logits_by(make(*reference, test.program), shape, kTokens, 0, false);
    const auto backend = twin();
    const std::vector<float> got = logits_by(make(*backend, test.program), shape, kTokens, 0, false);
    double squares = 0, errors = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      squares += expected[i] * static_cast<double>(expected[i]);
      errors += std::pow(got[i] - static_cast<double>(expected[i]), 2);
    }
    // Keys and values are float16 here; programs without them are float32 on both sides.
    EXPECT_LT(std::sqrt(errors / squares), shape.attention ? 5e-3 * shape.layers : 2e-5);
  }
}

/// A test for each kind of program: the address sanitizer makes them slow.
class MetalRows : public testing::TestWithParam<Kind> {};

TEST_P(MetalRows, HaveTheSameBitsInAnyStepsAndAfterRejectedDrafts) {
  if (!GetParam().usual && !test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  const TestShape& shape = GetParam().shape;
  const TestProgram test(shape, 2);
  const auto backend = twin(GetParam().kv_bits);
  const Made made = make(*backend, test.program);
  const std::vector<float> whole = logits_by(made, shape, kTokens, 0, false);
  EXPECT_EQ(logits_by(made, shape, 1, 0, false), whole) << "one by one";
  EXPECT_EQ(logits_by(made, shape, 7, 0, false), whole) << "by 7";
  EXPECT_EQ(logits_by(made, shape, 5, 4, false), whole) << "drafts kept";
  EXPECT_EQ(logits_by(made, shape, 6, 3, true), whole) << "drafts rejected";
}

INSTANTIATE_TEST_SUITE_P(Metal, MetalRows, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST(MetalProgram, ANeighbourChangesNoBit) {
  const TestShape shape = TestShape::odd();
  const TestProgram test(shape, 3);
  const auto backend = twin();
  const Made made = make(*backend, test.program);
  const std::vector<float> alone = logits_by(made, shape, 8, 0, false);
  TestTimeline one(*made.executable, *made.state, {3, 0, 5}, 1),
      other(*made.executable, *made.state, {1, 2, 4}, 0);
  std::vector<float> all;
  for (int at = 0; at < kTokens; at += 8) {
    std::vector<std::int32_t> tokens = tokens_of(shape, 11 + at, 3);
    const std::vector<std::int32_t> own = tokens_of(shape, at, 8);
    tokens.insert(tokens.end(), own.begin(), own.end());
    const std::vector<Segment> segments = {other.segment(3, 3), one.segment(8, 8)};
    const std::vector<std::int32_t> wanted = {3, 4, 5, 6, 7, 8, 9, 10};
    StepArgs args;
    args.tokens = tokens, args.segments = segments, args.logit_rows = wanted;
    const StepResult result = made.executable->run(args, *made.state);
    all.insert(all.end(), result.logits.begin(), result.logits.end());
    other.keep(3, 0);
    one.keep(8, 0);
  }
  EXPECT_EQ(all, alone);
}

TEST(MetalProgram, ATimelineContinuesInOtherBlocksAndSlots) {
  const TestShape shape;
  const TestProgram test(shape, 4);
  const auto backend = twin(8);
  const Made made = make(*backend, test.program), second = make(*backend, test.program);
  TestTimeline timeline(*made.executable, *made.state, {3, 0, 5}, 1);
  timeline.step(tokens_of(shape, 0, 36), 33);
  timeline.keep(33, 2);
  for (const std::int32_t block : {3, 0}) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(made.state->block_bytes()));
    made.state->read_block(block, bytes);
    second.state->write_block(block == 3 ? 1 : 2, bytes);
  }
  std::vector<std::byte> slot(static_cast<std::size_t>(made.state->slot_bytes()));
  made.state->read_slot(1, slot);
  second.state->write_slot(1, slot);
  second.state->copy_slot(1, 0);
  second.state->copy_block(2, 4);
  TestTimeline moved(*second.executable, *second.state, {1, 4}, 0);
  moved.adopt(timeline);
  const std::vector<float> there = moved.step(tokens_of(shape, 35, 6), 6);
  EXPECT_EQ(timeline.step(tokens_of(shape, 35, 6), 6), there);
}

TEST(MetalProgram, DraftTokensGetTheirColumns) {
  TestShape shape;
  shape.ids = {0, 1, 2, 3, 5, 8, 13, 21, 34, 55};
  shape.extra.count = 4;
  const TestProgram test(shape, 5);
  const auto reference = make_ref_backend();
  const auto backend = twin();
  const Made expected = make(*reference, test.program), made = make(*backend, test.program);
  for (const std::vector<std::int32_t>& added :
       {std::vector<std::int32_t>{}, std::vector<std::int32_t>{99, 60},
        std::vector<std::int32_t>{77, 58, 120}}) {
    made.executable->add_draft_tokens(added);
    expected.executable->add_draft_tokens(added);
    const std::vector<float> got = logits_by(made, shape, 8, 0, false);
    const std::vector<float> wanted = logits_by(expected, shape, 8, 0, false);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 0.02);
    EXPECT_TRUE(std::ranges::equal(made.executable->ids(), expected.executable->ids()));
  }
}

TEST(MetalProgram, EightBitKeysAndValuesTakeHalfTheMemoryAndStayNearTheReference) {
  const TestShape shape = TestShape::odd();
  const TestProgram test(shape, 1);
  const auto reference = make_ref_backend();
  const auto backend = twin(8);
  const Made made = make(*backend, test.program);
  const std::vector<float> expected = logits_by(make(*reference, test.program), shape, kTokens, 0, false);
  EXPECT_LT(difference(logits_by(made, shape, kTokens, 0, false), expected), 0.2);
  const std::int64_t wide = twin()->limits(test.program.layout()).block_bytes;
  EXPECT_EQ(made.state->block_bytes(), wide * (shape.head_dim + 4) / (2 * shape.head_dim));
}

TEST(MetalBackend, RefusesWhatItLacksInOneSentence) {
  const auto four_bits = make_backend({.name = "metal-twin", .settings = {{"kv-bits", 4}}});
  ASSERT_FALSE(four_bits.ok());
  EXPECT_NE(four_bits.error().message.find("expected 16 or 8"), std::string::npos);
  Program program;
  Attention attend;
  const Row in = program.input(600);
  attend.q = attend.k = attend.v = in;
  attend.heads = attend.kv_heads = 1, attend.head_dim = 600;
  program.capture("out", program.attend(attend));
  const Status status = twin()->check_supported(program);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("heads of 600 dimensions"), std::string::npos);
  const auto problem = [](const InstructionProgram& made) {
    const Status taken = twin()->check_supported(made.program);
    return taken.ok() ? "" : taken.error().message;
  };
  RandomWeights random(1);
  EXPECT_EQ(problem(attend_program(random, {.heads = 32, .kv_heads = 1, .head_dim = 8})), "");
  EXPECT_NE(
      problem(attend_program(random, {.heads = 33, .kv_heads = 1, .head_dim = 8})).find("33 query heads"),
      std::string::npos);
  EXPECT_EQ(problem(delta_program(random, {.key_dim = 256})), "");
  EXPECT_NE(problem(delta_program(random, {.key_dim = 257})).find("keys of 257 dimensions"),
            std::string::npos);
  EXPECT_NE(problem(attend_program(random, {.sinks = true})).find("attention sinks"), std::string::npos);
  EXPECT_NE(problem(attend_program(random, {.gain_span = 8})).find("a gain by position"), std::string::npos);
  TestShape biased = TestShape::clamped_mixture();
  biased.attention = false;
  EXPECT_NE(twin()
                ->check_supported(TestProgram(biased, 1).program)
                .error()
                .message.find("the model has experts with biases"),
            std::string::npos);
#ifndef __APPLE__
  EXPECT_EQ(make_metal_backend({}).error().code, Code::kNotFound);
#endif
}

/// A thread that does not reach a barrier is found; the others do not wait for ever.
TEST(MetalTwinFaults, ThreadsThatPartAreFound) {
  EXPECT_FALSE(metal::run_group(64, [](int thread) {
    if (thread != 5) metal::wait_for_group();
  }));
  EXPECT_FALSE(metal::run_group(32, [](int lane) {
    if (lane < 30) metal::exchange(1, 1);
  }));
  EXPECT_TRUE(metal::run_group(64, [](int) { metal::wait_for_group(); }));
}

/// A barrier that is missing gives other results in some order of threads.
TEST(MetalTwinFaults, AMissingBarrierIsFound) {
  const auto sums = [](bool barrier, unsigned seed) {
    metal::set_fibre_order(seed);
    std::vector<float> shared(8), seen(64);
    metal::run_group(64, [&](int thread) {
      if (thread % 8 == 0) shared[static_cast<std::size_t>(thread / 8)] = static_cast<float>(thread);
      if (barrier) metal::wait_for_group();
      for (const float value : shared) seen[static_cast<std::size_t>(thread)] += value;
    });
    metal::set_fibre_order(0);
    return seen;
  };
  EXPECT_EQ(sums(true, 0), sums(true, 9));
  EXPECT_EQ(sums(true, 0), sums(true, 77));
  EXPECT_NE(sums(false, 0), sums(false, 9));
}

TEST(MetalTwinFaults, AKernelWithTheWrongBuffersIsRefused) {
  std::byte* none[1] = {};
  EXPECT_THROW(metal::run_twin_kernel(metal::find_twin_kernel("rms_norm"), none, nullptr, {}, 256),
               std::runtime_error);
  EXPECT_LT(metal::find_twin_kernel("rms_norms"), 0);
}

}  // namespace
}  // namespace ft::program_test
