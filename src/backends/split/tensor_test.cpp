// Tensor parallelism: the bits of one device for every instruction, number of ranks and wire; placements, and
// the refusals. tests/split_test.cpp runs random schedules and drafters.
#include "backends/split/tensor.h"

#include <array>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

#include "backends/registry.h"
#include "backends/split/choice.h"
#include "backends/split/ranks.h"
#include "backends/split/shuffled_wire.h"
#include "backends/test_programs.h"
#include "program/forwarding_backend.h"

namespace ft::split::tensor_test {
namespace {

using Made = std::unique_ptr<Backend>;

Made one(const std::string& kind) { return std::move(make_backend({.name = kind, .threads = 1}).value()); }

Made ranks_of(const std::string& kind, int ranks, const Program& target, RankGroupOptions options = {}) {
  std::vector<Part> parts;
  for (int r = 0; r < ranks; ++r) parts.push_back({kind, one(kind)});
  return std::move(by_ranks(std::move(parts), target, std::move(options)).value());
}

/// Logits and captured rows of prompts, rounds with rejected rows and a second timeline.
std::vector<float> values_of(Backend& backend, const Program& program) {
  constexpr int kRows = 24, kBlocks = 2;
  const Capture& capture = *find_capture(program, "final");
  const auto executable = std::move(*backend.compile(program, {.max_rows = kRows, .max_logit_rows = kRows}));
  const auto state = std::move(*backend.make_state(program.layout(), {.slots = 2, .blocks = 2 * kBlocks}));
  const auto captured = std::move(*backend.make_rows(capture.in.width, kRows));
  const std::int32_t blocks[] = {0, 1, 2, 3};
  std::array<std::int64_t, 2> length{};
  std::array<std::int32_t, 2> replay{}, tape{};
  struct Turn {
    std::int32_t rows, confirmed, keep;
  };
  std::vector<float> all;
  std::mt19937 random(3);
  for (const Turn turn : {Turn{7, 7, 7}, Turn{4, 1, 3}, Turn{1, 1, 1}, Turn{5, 1, 1}, Turn{9, 9, 9}}) {
    std::vector<Segment> segments;
    std::vector<std::int32_t> tokens, rows;
    for (std::size_t s = 0; s < 2; ++s) {
      segments.push_back({{std::span(blocks).subspan(s * kBlocks, kBlocks), static_cast<std::int32_t>(s),
                           replay[s], tape[s]},
                          length[s],
                          turn.rows,
                          turn.confirmed});
      length[s] += turn.keep, replay[s] = turn.keep - turn.confirmed, tape[s] = 1 - tape[s];
    }
    for (std::int32_t r = 0; r < 2 * turn.rows; ++r) {
      tokens.push_back(static_cast<std::int32_t>(random() % 100));
      rows.push_back(r);
    }
    StepArgs args;
    args.tokens = tokens, args.segments = segments, args.logit_rows = rows;
    args.capture = {captured.get(), rows};
    const StepResult result = executable->run(args, *state);
    all.insert(all.end(), result.logits.begin(), result.logits.end());
    const std::size_t end = all.size();
    all.resize(end + rows.size() * static_cast<std::size_t>(capture.in.width));
    captured->read(0, std::span(all).subspan(end));
  }
  return all;
}

std::vector<TestShape> shapes() {
  TestShape plain = TestShape::odd();
  plain.bits = 0;
  TestShape many;
  many.kv_heads = many.key_heads = 4;
  many.softcap = 3;
  return {TestShape{},
          TestShape::odd(),
          plain,
          many,
          TestShape::widened(),
          TestShape::shared(),
          TestShape::mixture(),
          TestShape::vision(),
          TestShape::clamped_mixture()};
}

void expect_the_bits_of_one(const std::string& kind, int ranks) {
  int number = 0;
  for (const TestShape& shape : shapes()) {
    const TestProgram made(shape, 3);
    EXPECT_EQ(values_of(*one(kind), made.program),
              values_of(*ranks_of(kind, ranks, made.program), made.program))
        << kind << ", shape " << number << " on " << ranks << " ranks";
    ++number;
  }
}

TEST(Tensor, RanksOfRefGiveTheBitsOfOne) {
  for (const int ranks : {2, 3, 4}) expect_the_bits_of_one("ref", ranks);
}

TEST(Tensor, RanksOfCpuGiveTheBitsOfOne) {
  for (const int ranks : {2, 4}) expect_the_bits_of_one("cpu", ranks);
}

TEST(Tensor, TheWireMayDeliverLateInAnyOrderAndTorn) {
  const TestProgram made(TestShape::odd(), 3);
  const std::vector<float> whole = values_of(*one("ref"), made.program);
  for (const unsigned seed : {1U, 2U, 3U}) {
    RankGroupOptions options;
    options.wire = std::make_unique<ShuffledWire>(seed);
    EXPECT_EQ(whole, values_of(*ranks_of("ref", 3, made.program, std::move(options)), made.program)) << seed;
  }
}

TEST(Tensor, EveryRankHasItsPartOfEveryLayer) {
  TestShape shape;
  shape.kv_heads = 4;
  const TestProgram made(shape, 3);
  const Ranks ranks = *cut_over_ranks(made.program, *plan_ranks(made.program, 4, true));
  std::int64_t bytes = 0;
  for (const RankPart& part : ranks.parts) {
    bytes += part.whole.bytes_held();
    for (const Instruction& instruction : part.whole.instructions()) {
      if (const auto* attend = std::get_if<Attention>(&instruction)) {
        EXPECT_EQ(attend->heads, 1);
        EXPECT_EQ(attend->kv_heads, 1);
      }
      if (const auto* delta = std::get_if<DeltaRule>(&instruction)) {
        EXPECT_EQ(delta->value_heads, 1);
      }
      if (const auto* logits = std::get_if<Logits>(&instruction)) {
        EXPECT_EQ(logits->lm_head.rows, 32);
      }
    }
  }
  // Both ranks hold the key heads of the recurrence and the norms.
  EXPECT_LT(bytes, made.program.bytes_held() * 6 / 5);
}

TEST(Tensor, HeadsAreCutByKeysOrShareThem) {
  const auto text = [](int heads, int kv_heads, int ranks) {
    std::string all;
    const auto cut = cut_heads(heads, kv_heads, ranks);
    if (!cut) return std::string("none");
    for (const RankHeads& own : *cut)
      all += fmt::format("{}+{}/{}+{} ", own.first, own.count, own.kv_first, own.kv_count);
    return all;
  };
  EXPECT_EQ(text(8, 4, 2), "0+4/0+2 4+4/2+2 ");
  EXPECT_EQ(text(8, 4, 3), "0+2/0+1 2+2/1+1 4+4/2+2 ");
  EXPECT_EQ(text(24, 4, 8), "0+3/0+1 3+3/0+1 6+3/1+1 9+3/1+1 12+3/2+1 15+3/2+1 18+3/3+1 21+3/3+1 ");
  EXPECT_EQ(text(3, 1, 2), "0+1/0+1 1+2/0+1 ");
  EXPECT_EQ(text(6, 2, 3), "0+1/0+1 1+2/0+1 3+3/1+1 ");
  EXPECT_EQ(text(2, 1, 4), "none");
}

TEST(Tensor, EveryHeadIsOnOneRankAndReadsItsOwnKeys) {
  for (int kv_heads = 1; kv_heads <= 8; ++kv_heads) {
    for (int group = 1; group <= 8; ++group) {
      for (int ranks = 2; ranks <= 8; ++ranks) {
        const auto cut = cut_heads(kv_heads * group, kv_heads, ranks);
        if (!cut) continue;
        int next = 0;
        for (const RankHeads& own : *cut) {
          ASSERT_EQ(own.first, next);
          ASSERT_EQ(own.count % own.kv_count, 0);
          for (int h = 0; h < own.count; ++h)
            ASSERT_EQ(own.kv_first + h / (own.count / own.kv_count), (own.first + h) / group);
          next += own.count;
        }
        ASSERT_EQ(next, kv_heads * group);
      }
    }
  }
}

TEST(Tensor, WhatCannotBeIsRefusedWithASentence) {
  const TestProgram made({}, 3);
  BackendOptions options{.name = "ref"};
  options.target = &made.program;
  const auto with = [&](BackendSettings settings) {
    options.settings = std::move(settings);
    const auto backend = make_backend(options);
    return backend.ok() ? std::string() : backend.error().message;
  };
  EXPECT_EQ(with({{"split", "tensor"}, {"devices", "ref,ref"}}), "");
  EXPECT_EQ(with({{"split", "tensor"}, {"devices", "ref"}}).find("--split tensor needs two devices or more"),
            0U);
  EXPECT_EQ(with({{"split", "tensor"}, {"devices", "ref,cpu"}}).find("--split tensor: ref computes with"),
            0U);
  EXPECT_EQ(with({{"split", "tensor"}, {"devices", "ref=1,ref=3"}}),
            "--split tensor gives each device a part of every layer; omit =LAYERS in --devices");
  EXPECT_EQ(with({{"split", "tensor"}, {"devices", "ref,ref,ref,ref,ref,ref,ref,ref,ref"}}),
            "--split tensor takes at most 8 devices, and --devices names 9");
  EXPECT_NE(with({{"split", "tensor"}, {"experts", "cpu"}}).find("in two ways"), std::string::npos);
}

TEST(Tensor, APlacementIsALineForEachDevice) {
  const TestProgram made({}, 3);
  BackendOptions options{.name = "ref", .settings = {{"split", "tensor"}, {"devices", "ref,ref"}}};
  options.target = &made.program;
  const std::vector<std::string> lines = *division_lines(options);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(
      lines[0].find(
          "1 (ref): 2 of 4 heads, 2 of 4 value heads, 64 of 128 tokens, the embedding, 0.00 GB of weights, "),
      0U)
      << lines[0];
  EXPECT_EQ(
      lines[1].find("2 (ref): 2 of 4 heads, 2 of 4 value heads, 64 of 128 tokens, 0.00 GB of weights, "), 0U)
      << lines[1];
}

/// Says that it has `bytes_` of memory.
class Small final : public ForwardingBackend {
 public:
  explicit Small(std::int64_t bytes) : ForwardingBackend(one("ref")), bytes_(bytes) {}
  Limits limits(const StateLayout& layout) const override {
    Limits limits = ForwardingBackend::limits(layout);
    limits.memory_bytes = bytes_;
    return limits;
  }

 private:
  std::int64_t bytes_;
};

TEST(Tensor, TheLeastMemoryDecides) {
  const TestProgram made({}, 3);
  const auto with = [&](std::int64_t second) {
    std::vector<Part> parts;
    parts.push_back({"a", std::make_unique<Small>(std::int64_t{1} << 30)});
    parts.push_back({"b", std::make_unique<Small>(second)});
    return by_ranks(std::move(parts), made.program);
  };
  EXPECT_EQ(with(1000).error().message.find("--split tensor: the part of device 2 (b) takes 0.0 GB"), 0U);
  EXPECT_EQ((*with(1 << 29))->limits(made.program.layout()).memory_bytes, std::int64_t{1} << 30);
}

TEST(Tensor, ThePlanCountsTheActivationsOfEveryStage) {
  const TestProgram made({}, 3);
  const Occupancy use{.slots = 2, .blocks = 3, .rows = 8, .logit_rows = 2};
  const ProgramMemory whole = one("cpu")->memory_for(made.program, use);
  const ProgramMemory ranks = ranks_of("cpu", 2, made.program)->memory_for(made.program, use);
  EXPECT_GT(ranks.scratch, whole.scratch);
  EXPECT_GE(ranks.weights, whole.weights - made.program.bytes_held() / 10);
  EXPECT_EQ(ranks.key_values, whole.key_values);
}

}  // namespace
}  // namespace ft::split::tensor_test
