#include "backends/extra_ids.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "backends/registry.h"
#include "backends/test_programs.h"
#include "program/check.h"

namespace ft::extra_ids_test {
namespace {

using Ids = std::vector<std::int32_t>;

Logits logits_of(Ids ids, ExtraIds extra) {
  Logits op;
  op.lm_head.rows = 100;
  op.ids = std::move(ids), op.extra = std::move(extra);
  return op;
}

TEST(ExtraIdTable, StandBehindTheFixedOnesInAscendingOrder) {
  ExtraIdTable extra(logits_of({0, 1, 2}, {4, {70}}));
  EXPECT_EQ(extra.ids(), (Ids{0, 1, 2, 3, 4, 5, 70})) << "before anything is named: the next ones";
  EXPECT_TRUE(extra.add(Ids{90, 2, 8, 8, 100, 101, -1}));
  EXPECT_EQ(extra.ids(), (Ids{0, 1, 2, 3, 8, 70, 90}));
  EXPECT_FALSE(extra.add(Ids{90, 70, 0, 3}));
  EXPECT_EQ(extra.fixed(), 3U);
}

TEST(ExtraIdTable, TheOneThatWasNamedLongestAgoGivesWay) {
  ExtraIdTable extra(logits_of({0}, {3, {99}}));
  extra.add(Ids{10, 20});
  extra.add(Ids{10});
  extra.add(Ids{30});
  EXPECT_EQ(extra.ids(), (Ids{0, 10, 30, 99}));
  extra.add(Ids{40, 50, 60});  // more than there is room for: the last ones remain
  EXPECT_EQ(extra.ids(), (Ids{0, 50, 60, 99}));
}

TEST(ExtraIdTable, ThoseThatAlwaysHaveAColumnMayHaveThemAll) {
  ExtraIdTable extra(logits_of({0}, {2, {98, 99}}));
  EXPECT_FALSE(extra.add(Ids{10, 99, 20}));
  EXPECT_EQ(extra.ids(), (Ids{0, 98, 99}));
}

TEST(ExtraIdTable, AreWhatWasNamedLastWhateverCame) {
  std::mt19937 random(1);
  ExtraIdTable extra(logits_of({0, 1, 2, 3}, {7, {}}));
  Ids named = {10, 9, 8, 7, 6, 5, 4};  // by time, the newest last
  for (int call = 0; call < 300; ++call) {
    Ids tokens(random() % 5);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 24);
    const Ids before(extra.tokens().begin(), extra.tokens().end());
    const bool changed = extra.add(tokens);
    for (const std::int32_t token : tokens) {
      if (token < 4) continue;
      std::erase(named, token);
      named.push_back(token);
    }
    named.erase(named.begin(), named.end() - 7);
    Ids ascending = named;
    std::ranges::sort(ascending);
    ASSERT_EQ(Ids(extra.ids().begin() + 4, extra.ids().end()), ascending);
    Ids ordered;
    for (const int place : extra.order()) ordered.push_back(extra.tokens()[static_cast<std::size_t>(place)]);
    ASSERT_EQ(ordered, ascending);
    ASSERT_TRUE(changed || std::ranges::equal(before, extra.tokens())) << "and no caller was informed";
  }
}

TEST(ExtraIdTable, ProgramsThatCannotHaveThemAreRefused) {
  const auto checked = [](Ids ids, ExtraIds extra) {
    TestShape shape;
    shape.vocabulary = kMaxExtraIds + 10;
    shape.ids = std::move(ids), shape.extra = std::move(extra);
    return check(TestProgram(shape, 1).program).ok();
  };
  const std::int32_t end = kMaxExtraIds + 10;
  EXPECT_TRUE(checked({1, 2}, {kMaxExtraIds, {3, end - 1}}));
  EXPECT_FALSE(checked({1, 2}, {kMaxExtraIds + 1, {}}));
  EXPECT_FALSE(checked({1, 2}, {-1, {}}));
  EXPECT_FALSE(checked({1, 2}, {1, {3, 4}})) << "fewer columns than ids that always have one";
  for (const Ids& always : {Ids{2}, Ids{4, 3}, Ids{3, 3}, Ids{end}})
    EXPECT_FALSE(checked({1, 2}, {4, always})) << always[0];
  EXPECT_TRUE(checked({1, end - 3}, {2, {}}));
  EXPECT_FALSE(checked({1, end - 3}, {3, {}})) << "more than there are ids above the listed ones";
  EXPECT_FALSE(checked({}, {4, {}})) << "next to the whole LM head";
}

/// One step of five rows; sample of each row, greedy.
struct Ran {
  std::vector<float> logits;
  Ids sampled, ids;
};

Ran run(Executable& executable, Backend& backend, const Program& program, int logit_row_count = 5) {
  auto state = std::move(backend.make_state(program.layout(), {.slots = 1, .blocks = 2}).value());
  const Ids blocks = {0, 1}, tokens = {1, 2, 3, 4, 5};
  Ids logit_rows(static_cast<std::size_t>(logit_row_count));
  std::iota(logit_rows.begin(), logit_rows.end(), 5 - logit_row_count);
  const Segment segment{{blocks, 0, 0, 0}, 0, 5, 5};
  SamplingParams greedy;
  SampleRow row;
  row.sampler = &greedy;
  const std::vector<SampleRow> samples(logit_rows.size(), row);
  StepArgs args;
  args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = logit_rows, args.samples = samples;
  const StepResult result = executable.run(args, *state);
  return {{result.logits.begin(), result.logits.end()},
          {result.sampled.begin(), result.sampled.end()},
          {executable.ids().begin(), executable.ids().end()}};
}

/// Each column of a reduced LM head has the bits of the full one, and a sample chooses among them.
void expect_columns_of_the_whole_head(const char* name, TestShape shape, int threads) {
  shape.vocabulary = 400;
  BackendOptions options;
  options.name = name, options.threads = threads;
  auto backend = std::move(make_backend(options).value());
  const TestProgram whole(shape, 5);
  shape.ids.resize(37);
  std::iota(shape.ids.begin(), shape.ids.end(), 0);
  shape.extra = {50, {399}};
  const TestProgram reduced(shape, 5);
  const CompileOptions compile = {.max_rows = 8, .max_logit_rows = 8};
  const auto all = std::move(backend->compile(whole.program, compile).value());
  const auto some = std::move(backend->compile(reduced.program, compile).value());
  std::mt19937 random(2);
  for (int call = 0; call < 12; ++call) {
    if (call > 0) {
      Ids tokens(random() % 23);
      for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 420);
      some->add_draft_tokens(tokens);
    }
    const int rows = 1 + call % 5;
    const Ran full = run(*all, *backend, whole.program, rows),
              found = run(*some, *backend, reduced.program, rows);
    ASSERT_EQ(found.ids.size(), 87U);
    ASSERT_TRUE(std::ranges::binary_search(found.ids, 399));
    ASSERT_EQ(some->vocabulary(), 87);
    for (std::size_t r = 0; r < found.sampled.size(); ++r) {
      float best = -INFINITY;
      std::int32_t chosen = -1;
      for (std::size_t c = 0; c < found.ids.size(); ++c) {
        const std::int32_t id = found.ids[c];
        const float logit = full.logits[r * 400 + static_cast<std::size_t>(id)];
        ASSERT_EQ(found.logits[r * 87 + c], logit) << name << " call " << call << " id " << id;
        if (logit > best) best = logit, chosen = id;
      }
      EXPECT_EQ(found.sampled[r], chosen);
    }
  }
}

TEST(ExtraIdTable, ColumnsHaveTheBitsOfTheWholeHead) {
  for (const int threads : {1, 2, 3}) {
    expect_columns_of_the_whole_head("cpu", TestShape(), threads);
    expect_columns_of_the_whole_head("cpu", TestShape::odd(), threads);
  }
  TestShape plain;
  plain.bits = 0;
  expect_columns_of_the_whole_head("cpu", plain, 2);
  expect_columns_of_the_whole_head("ref", TestShape(), 1);
}

}  // namespace
}  // namespace ft::extra_ids_test
