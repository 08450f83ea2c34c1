// Drafts that the device chooses: against the host's choice on the same logits, with ties, odd vocabularies,
// columns with ids, biases and every filter; in chains by place that nobody waits for; and what stays the
// host's.
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

namespace ft::metal {
namespace {

/// The twin, which counts launches of the drafts' kernels.
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

/// The tokens of `rows` [samples, columns] of logits, whatever they are: the head has them as its columns.
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

/// What the host chooses from the logits that the device had.
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

/// Of `columns`, on the device in three orders of threads; equal to the host's.
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

/// NaN is never drawn, infinity is the largest float. One row at a time: no other has a share of it.
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
  for (const bool labelled : {false, true}) {
    const TestProgram test(drafter(labelled), 9);
    const Program& program = test.program;
    SamplingParams greedy;
    SampleRow row;
    row.sampler = &greedy;
    const std::vector<std::int32_t> expected = chain(open_twin_device(), program, row, false);
    EXPECT_GT(std::ranges::max(expected), 0);
    row.exact = false;
    int at_once = 0;
    const auto late = std::make_shared<Late>();
    EXPECT_EQ(chain(late, program, row, true, &at_once), expected);
    EXPECT_EQ(at_once, 3) << "steps that wait at once";
    EXPECT_EQ(chain(std::make_shared<Late>(), program, row, false), expected);
    row.exact = true;
    at_once = 0;
    EXPECT_EQ(chain(std::make_shared<Late>(), program, row, true, &at_once), expected);
    EXPECT_EQ(at_once, 0) << "rows of a target wait for the host";
  }
}

}  // namespace
}  // namespace ft::metal
