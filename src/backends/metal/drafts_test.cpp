// Drafts that the device chooses, against the host's choice on the same logits: with ties, odd vocabularies,
// columns with ids, biases and every filter; in chains by place without a wait; and the rows that the host
// chooses.
#include "backends/metal/drafts.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <tuple>

#include "backends/metal/executable.h"
#include "backends/metal/late_device.h"
#include "backends/metal/rows.h"
#include "backends/metal/test_tokens.h"
#include "backends/metal/twin/fibres.h"
#include "backends/random_weights.h"
#include "sampling/sample.h"
#include "tests/full_run.h"

namespace ft::metal::drafts_test {
namespace {

/// The twin, which counts launches of the draft kernels.
class Counting final : public ForwardingDevice {
 public:
  Counting() : ForwardingDevice(open_twin_device()) {}
  void dispatch(int kernel, std::span<const Place> buffers, std::span<const std::byte> args, Grid grid,
                int threads) override {
    choices += name_of(kernel) == "draft_choice" ? 1 : 0;
    ForwardingDevice::dispatch(kernel, buffers, args, grid, threads);
  }
  int choices = 0;
};

struct Chosen {
  std::vector<std::int32_t> sampled, round, ids;
  std::vector<float> logits;
};

/// The tokens of any logits `rows` [samples, columns]: the LM head has them as its columns.
Chosen choose(const std::shared_ptr<Device>& device, int columns, const std::vector<float>& rows,
              std::vector<SampleRow> samples, std::vector<std::int32_t> labels = {}) {
  const auto count = static_cast<int>(samples.size());
  RandomWeights random(3);
  Weight head = random.plain(Format::kF32, columns, count, 0);
  auto* const values = reinterpret_cast<float*>(const_cast<std::byte*>(head.data));
  for (int c = 0; c < columns; ++c) {
    for (int w = 0; w < count; ++w) values[c * count + w] = rows[static_cast<std::size_t>(w * columns + c)];
  }
  Program program;
  program.logits(Logits{program.input(count), head, {}, {}, std::move(labels), 0});
  program.sample();
  const auto executable =
      std::move(compile(device, program, {.max_rows = count, .max_logit_rows = count}).value());
  const auto state = std::move(MetalState::make(device, program.layout(), {.slots = 1, .blocks = 1}).value());
  const auto store = std::move(MetalRows::make(device, count, count).value());
  std::vector<float> one(static_cast<std::size_t>(count * count));
  for (int w = 0; w < count; ++w) one[static_cast<std::size_t>(w * count + w)] = 1;
  store->write(0, one);
  std::vector<std::int32_t> places(samples.size()), tokens(samples.size()), blocks = {0};
  std::iota(places.begin(), places.end(), 0);
  Chosen chosen;
  chosen.round.assign(samples.size() + 3, -7);
  for (int w = 0; w < count; ++w) {
    samples[static_cast<std::size_t>(w)].exact = false;
    samples[static_cast<std::size_t>(w)].store = w + 2;
  }
  const Segment segment{{blocks, 0, 0, 0}, 0, count, count};
  StepArgs args;
  args.tokens = tokens, args.hidden = {store.get(), places}, args.segments = {&segment, 1};
  args.logit_rows = places, args.samples = samples, args.round_tokens = chosen.round;
  const StepResult result = executable->run(args, *state);
  chosen.sampled.assign(result.sampled.begin(), result.sampled.end());
  chosen.logits.assign(result.logits.begin(), result.logits.end());
  chosen.ids.assign(executable->ids().begin(), executable->ids().end());
  EXPECT_EQ(chosen.round[0], -7);
  for (std::size_t w = 0; w < samples.size(); ++w) EXPECT_EQ(chosen.round[w + 2], chosen.sampled[w]);
  return chosen;
}

/// The host's choice from the device's logits.
std::vector<std::int32_t> on_the_host(const Chosen& chosen, const std::vector<SampleRow>& samples) {
  SampleScratch scratch;
  const std::size_t columns = chosen.logits.size() / samples.size();
  std::vector<std::int32_t> tokens;
  for (std::size_t w = 0; w < samples.size(); ++w)
    tokens.push_back(
        sample(std::span(chosen.logits).subspan(w * columns, columns), chosen.ids, samples[w], scratch));
  return tokens;
}

std::vector<float> random_logits(RandomWeights& random, int columns, std::size_t rows) {
  std::vector<float> all(static_cast<std::size_t>(columns) * rows);
  for (float& value : all) value = 6 * random.uniform();
  return all;
}

/// Draws from `columns` on the device in three orders of threads; each must equal the host's draw.
std::vector<std::int32_t> highest(int columns, const std::vector<float>& rows,
                                  const std::vector<std::int32_t>& labels) {
  static const SamplingParams kGreedy;
  std::vector<SampleRow> samples(rows.size() / static_cast<std::size_t>(columns));
  for (SampleRow& row : samples) row.sampler = &kGreedy;
  const auto device = std::make_shared<Counting>();
  const Chosen chosen = choose(device, columns, rows, samples, labels);
  EXPECT_EQ(device->choices, 1) << "the host has chosen";
  EXPECT_EQ(chosen.sampled, on_the_host(chosen, samples)) << columns;
  for (const unsigned seed : {7U, 1234U}) {
    set_fibre_order(seed);
    EXPECT_EQ(choose(open_twin_device(), columns, rows, samples, labels).sampled, chosen.sampled);
  }
  set_fibre_order(0);
  return chosen.sampled;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(MetalDrafts, AtTemperatureZeroAreTheHighestLogitAndTheLowestTokenAmongThem) {
  RandomWeights random(11);
  for (const int columns : {1, 2, 31, 255, 4095, 4097, 9001}) {
    for (const bool labelled : {false, true}) {
      std::vector<std::int32_t> labels;
      for (int c = 0; labelled && c < columns; ++c) labels.push_back(2 * c + 5);
      const auto token = [&](int column) { return labelled ? 2 * column + 5 : column; };
      std::vector<float> rows = random_logits(random, columns, 4);
      const auto row = [&](int number) { return rows.begin() + std::ptrdiff_t{number} * columns; };
      std::fill_n(row(1), columns, 2.5F);
      *(row(2) + columns / 2) = *(row(2) + columns - 1) = *(row(2) + columns / 3) = 9;
      *(row(3) + columns - 1) = 8;
      const std::vector<std::int32_t> chosen = highest(columns, rows, labels);
      EXPECT_EQ(chosen[0], token(static_cast<int>(std::max_element(row(0), row(1)) - row(0))));
      EXPECT_EQ(chosen[1], token(0));
      EXPECT_EQ(chosen[2], token(columns / 3));
      EXPECT_EQ(chosen[3], token(columns - 1));
    }
  }
}

/// NaN is never drawn, and infinity counts as the largest float. One row at a time.
TEST(MetalDrafts, AtTemperatureZeroTakeNumbersThatAreNoneAsTheHostDoes) {
  constexpr int kColumns = 4500;
  RandomWeights random(12);
  for (const auto& [a, b, expected] :
       {std::tuple(kNan, kInfinity, 4490), std::tuple(kNan, kNan, -1), std::tuple(kInfinity, kInfinity, 7),
        std::tuple(std::numeric_limits<float>::max(), kInfinity, 7), std::tuple(-kInfinity, 9.0F, 4490)}) {
    std::vector<float> row = random_logits(random, kColumns, 1);
    row[7] = a, row[4490] = b;
    const std::int32_t chosen = highest(kColumns, row, {})[0];
    if (expected >= 0) {
      EXPECT_EQ(chosen, expected) << a << ' ' << b;
    }
  }
  EXPECT_EQ(highest(kColumns, std::vector<float>(kColumns, -kInfinity), {})[0], 0);
  EXPECT_EQ(highest(kColumns, std::vector<float>(kColumns, kNan), {})[0], 0);
}

std::vector<SamplingParams> every_sampler() {
  std::vector<SamplingParams> all;
  for (const float temperature : {0.3F, 1.0F, 4.0F}) {
    for (const int top_k : {0, 1, 20, 256}) {
      for (const float top_p : {1.0F, 0.9F, 0.05F}) {
        for (const float min_p : {0.0F, 0.2F}) {
          if (top_k == 0 && top_p < 1) continue;  // the host's
          SamplingParams one;
          one.temperature = temperature, one.top_k = top_k, one.top_p = top_p, one.min_p = min_p;
          one.seed = 0x9E3779B97F4A7C15ULL * (all.size() + 1);
          all.push_back(one);
        }
      }
    }
  }
  return all;
}

struct Agreement {
  int draws = 0, same = 0, same_with_other_noise = 0;
};

/// Rows of one sampler, each with separate logits, position and bias.
Agreement agreement(const SamplingParams& sampler, int columns, bool labelled, RandomWeights& random) {
  constexpr std::size_t kRows = 12;
  const std::vector<LogitBias> biases = {{3, -2.0F}, {8, 5.0F}, {9, 1.5F}, {40, -1e30F}};
  std::vector<std::int32_t> labels;
  for (int c = 0; labelled && c < columns; ++c) labels.push_back(5 * c + 3);
  std::vector<SampleRow> rows(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    rows[i].sampler = &sampler;
    rows[i].position = static_cast<std::int64_t>(i * 1000 + 1) << (i % 3 * 12);
    if (i % 2 == 0) rows[i].bias = std::span(biases).first(1 + i % 4);
  }
  const auto device = std::make_shared<Counting>();
  const Chosen chosen = choose(device, columns, random_logits(random, columns, kRows), rows, labels);
  EXPECT_EQ(device->choices, 1) << "the host has chosen";
  const std::vector<std::int32_t> expected = on_the_host(chosen, rows);
  SamplingParams other = sampler;
  other.seed += 1;
  for (SampleRow& row : rows) row.sampler = &other;
  const std::vector<std::int32_t> unrelated = on_the_host(chosen, rows);
  Agreement result;
  for (std::size_t i = 0; i < kRows; ++i) {
    result.draws += 1;
    result.same += chosen.sampled[i] == expected[i] ? 1 : 0;
    result.same_with_other_noise += chosen.sampled[i] == unrelated[i] ? 1 : 0;
  }
  return result;
}

/// Logits between -6 and 6 leave many tokens near the best, so unrelated noise agrees seldom.
TEST(MetalDrafts, SampledOnesAreThoseOfTheHostNearlyAlways) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  RandomWeights random(13);
  for (const int columns : {301, 9001}) {
    Agreement all, whole;
    const std::vector<SamplingParams> samplers = every_sampler();
    for (std::size_t i = 0; i < samplers.size(); i += columns > 1000 ? 4 : 1) {
      const SamplingParams& sampler = samplers[i];
      const Agreement one = agreement(sampler, columns, i % 2 == 1, random);
      EXPECT_GE(one.same, one.draws - 1)
          << "temperature " << sampler.temperature << " top-k " << sampler.top_k << " top-p " << sampler.top_p
          << " min-p " << sampler.min_p;
      all.draws += one.draws, all.same += one.same;
      if (sampler.temperature < 1 || sampler.top_k == 1 || sampler.top_p < 0.5F || sampler.min_p > 0)
        continue;
      whole.draws += one.draws, whole.same_with_other_noise += one.same_with_other_noise;
    }
    EXPECT_GE(all.same * 100, all.draws * 99) << all.same << " of " << all.draws;
    EXPECT_LT(whole.same_with_other_noise * 4, whole.draws) << "the test would not see unrelated noise";
  }
}

TEST(MetalDrafts, SampledOnesHaveNoOrderOfThreads) {
  RandomWeights random(14);
  constexpr int kColumns = 4500;
  SamplingParams drawn, cut, greedy;
  drawn.temperature = cut.temperature = 0.8F;
  cut.top_k = 20, cut.top_p = 0.9F, cut.min_p = 0.01F;
  std::vector<SampleRow> samples(6);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].sampler = i % 3 == 0 ? &greedy : i % 3 == 1 ? &drawn : &cut;
    samples[i].position = static_cast<std::int64_t>(i);
  }
  std::vector<float> rows = random_logits(random, kColumns, samples.size());
  std::fill_n(rows.begin() + 4 * kColumns, 2 * kColumns, 1.5F);  // all alike
  const Chosen chosen = choose(open_twin_device(), kColumns, rows, samples);
  const std::vector<std::int32_t> expected = on_the_host(chosen, samples);
  for (const std::size_t row : {0U, 1U, 2U, 3U, 4U}) EXPECT_EQ(chosen.sampled[row], expected[row]) << row;
  for (const unsigned seed : {7U, 1234U}) {
    set_fibre_order(seed);
    EXPECT_EQ(choose(open_twin_device(), kColumns, rows, samples).sampled, chosen.sampled);
  }
  set_fibre_order(0);
}

/// NaN and infinity, as the host treats them.
TEST(MetalDrafts, SampledOnesOfRowsWithoutAFiniteLogitAreTheLowestToken) {
  SamplingParams drawn, cut;
  drawn.temperature = cut.temperature = 1;
  cut.top_k = 5, cut.top_p = 0.5F, cut.min_p = 0.1F;
  for (const SamplingParams* const sampler : {&drawn, &cut}) {
    std::vector<SampleRow> samples(1);
    samples[0].sampler = sampler;
    for (const float value : {kNan, -kInfinity}) {
      std::vector<float> row(300, value);
      EXPECT_EQ(choose(open_twin_device(), 300, row, samples).sampled[0], 0);
      row[77] = -4;
      EXPECT_EQ(choose(open_twin_device(), 300, row, samples).sampled[0], 77) << "the only one";
      row[12] = kInfinity;
      EXPECT_EQ(choose(open_twin_device(), 300, row, samples).sampled[0], 12);
    }
  }
}

TEST(MetalDrafts, WhatTheyDoNotDoIsTheHosts) {
  RandomWeights random(15);
  constexpr int kColumns = 600;
  const std::vector<float> logits = random_logits(random, kColumns, 1);
  SamplingParams greedy, penalised, only_top_p, wide, drawn;
  penalised.repetition = 3;
  only_top_p.temperature = wide.temperature = drawn.temperature = 1;
  only_top_p.top_p = 0.5F, wide.top_k = 257;
  const std::vector<LogitBias> biases = {{1, 4}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
  const std::vector<std::uint32_t> mask = {0x00F0F0F0U, 1U};
  const std::vector<TokenCount> history = {{7, 1}};
  const auto choices = [&](SampleRow row, const SamplingParams& sampler) {
    row.sampler = &sampler;
    const auto device = std::make_shared<Counting>();
    const Chosen chosen = choose(device, kColumns, logits, {row});
    EXPECT_EQ(chosen.sampled, on_the_host(chosen, {row}));
    return device->choices;
  };
  SampleRow masked, steered, counted, rejected;
  masked.mask = mask, steered.bias = biases, counted.history = history, rejected.stream = Stream::kDraft;
  EXPECT_EQ(choices({}, greedy), 1);
  EXPECT_EQ(choices({}, drawn), 1);
  EXPECT_EQ(choices({}, penalised), 1) << "nothing is counted yet";
  EXPECT_EQ(choices(counted, penalised), 0);
  EXPECT_EQ(choices(counted, greedy), 1);
  EXPECT_EQ(choices(masked, greedy), 0);
  EXPECT_EQ(choices(steered, greedy), 0);
  EXPECT_EQ(choices(rejected, drawn), 0);
  EXPECT_EQ(choices({}, only_top_p), 0);
  EXPECT_EQ(choices({}, wide), 0);
}

/// A chain of single rows: each reads the token that the one before
/// has chosen.
std::vector<std::int32_t> chain(const std::shared_ptr<Device>& device, const Program& program, SampleRow row,
                                bool by_place, int* submitted_at_once = nullptr) {
  constexpr int kDepth = 6;
  const Made made{std::move(compile(device, program, {.max_rows = 4, .max_logit_rows = 4}).value()),
                  std::move(MetalState::make(device, program.layout(), {.slots = 1, .blocks = 2}).value())};
  const std::vector<std::int32_t> blocks = {1, 0}, logit_rows = {0};
  std::vector<std::int32_t> round(kDepth + 1, -9);
  std::int32_t token = 3;
  const auto* const late = dynamic_cast<const Late*>(device.get());
  for (int step = 0; step < kDepth; ++step) {
    const std::vector<std::int32_t> tokens = {by_place && step > 0 ? -1 - step : token};
    const Segment segment{{blocks, 0, 0, 0}, step, 1, 1};
    SampleRow own = row;
    own.position = step, own.store = step + 1, own.drafts = {1, step};
    StepArgs args;
    args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = logit_rows;
    args.samples = {&own, 1}, args.round_tokens = round, args.logits = false;
    made.executable->submit(args, *made.state);
    if (late != nullptr && submitted_at_once != nullptr)
      *submitted_at_once = std::max(*submitted_at_once, static_cast<int>(late->waiting()));
    if (!by_place) token = made.executable->collect().sampled[0];
  }
  made.executable->collect();
  EXPECT_EQ(round[0], -9);
  round.erase(round.begin());
  return round;
}

TestShape drafter(bool labelled) {
  TestShape shape;
  if (labelled) shape.ids = {0, 1, 2, 3, 5, 8, 13, 21, 34, 55}, shape.extra.count = 4;
  return shape;
}

TEST(MetalDrafts, AChainByPlaceWaitsForNothingAndHasTheSameTokens) {
  if (!test::full_run()) GTEST_SKIP() << "FORETOKEN_FULL=1 runs it";
  SamplingParams greedy, drawn, cut, penalised;
  drawn.temperature = cut.temperature = 1;
  cut.top_k = 7, cut.top_p = 0.95F;
  penalised.repetition = 3;
  for (const bool labelled : {false, true}) {
    const TestProgram test(drafter(labelled), 9);
    for (const SamplingParams* const sampler : {&greedy, &drawn, &cut, &penalised}) {
      const bool waits = sampler == &penalised;
      SampleRow row;
      row.sampler = sampler;
      const std::vector<std::int32_t> expected = chain(open_twin_device(), test.program, row, false);
      EXPECT_GT(std::ranges::max(expected), 0);
      row.exact = false;
      int at_once = 0;
      EXPECT_EQ(chain(std::make_shared<Late>(), test.program, row, true, &at_once), expected);
      EXPECT_EQ(at_once, waits ? 1 : 3) << "steps that wait at once";
      EXPECT_EQ(chain(std::make_shared<Late>(), test.program, row, false), expected);
      row.exact = true;
      at_once = 0;
      EXPECT_EQ(chain(std::make_shared<Late>(), test.program, row, true, &at_once), expected);
      EXPECT_EQ(at_once, 0) << "rows of a target wait for the host";
    }
  }
}

}  // namespace
}  // namespace ft::metal::drafts_test
