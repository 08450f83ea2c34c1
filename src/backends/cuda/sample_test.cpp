// Tokens sampled on the device equal ft::sample's: penalties, biases, masks, every kind of filter, ties,
// columns with ids, tokens that go from step to step by place, samples that follow their step.
#include "sampling/sample.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

#include "backends/cuda/test_devices.h"
#include "backends/random_weights.h"
#include "backends/test_programs.h"

namespace ft::cuda_sample_test {
namespace {

class CudaSample : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
    backend_ = std::move(cuda_on(GetParam()).value());
  }

  /// The weight has a column for each sample, its logits, and a hidden row picks one exactly.
  void expect_tokens(int columns, std::vector<std::int32_t> labels, const std::vector<float>& rows,
                     std::vector<SampleRow> samples) {
    const auto count = static_cast<int>(samples.size());
    Program program;
    const Row in = program.input(count);
    Weight given = random_.plain(Format::kF32, columns, count, 0);
    auto* values = reinterpret_cast<float*>(const_cast<std::byte*>(given.data));
    std::vector<float> picks(static_cast<std::size_t>(count * count));
    for (int w = 0; w < count; ++w) {
      picks[static_cast<std::size_t>(w * count + w)] = 1;
      for (int c = 0; c < columns; ++c)
        values[c * count + w] = rows[static_cast<std::size_t>(w * columns + c)];
    }
    program.logits(Logits{in, given, {}, {}, std::move(labels), 0});
    program.sample();
    const auto made = backend_->compile(program, {.max_rows = count, .max_logit_rows = count});
    ASSERT_TRUE(made.ok()) << made.error().message;
    Executable& executable = **made;
    const auto state = std::move(backend_->make_state(program.layout(), {.slots = 1, .blocks = 1}).value());
    const auto store = std::move(backend_->make_rows(count, count).value());
    store->write(0, picks);
    std::vector<std::int32_t> places(samples.size()), tokens(samples.size()), blocks = {0};
    std::vector<std::int32_t> round(samples.size() + 3, -7);
    std::iota(places.begin(), places.end(), 0);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 5 % 13);
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i].store = static_cast<std::int32_t>(i) + 2;
    const Segment segment{{blocks, 0, 0, 0}, 0, count, count};
    StepArgs args;
    args.tokens = tokens, args.hidden = {store.get(), places}, args.segments = {&segment, 1};
    args.logit_rows = places, args.samples = samples, args.round_tokens = round;
    for (const bool logits : {false, true, false, true}) {
      args.logits = logits;
      const bool follow = executable.samples_later() && follows_++ % 4 > 1;
      args.samples_follow = follow;
      if (follow) args.samples = {};
      executable.submit(args, *state);
      args.samples = samples;
      if (follow) executable.submit_samples(args);
      const StepResult result = executable.collect();
      SampleScratch scratch;
      for (std::size_t w = 0; w < samples.size(); ++w) {
        const auto row = std::span<const float>(rows).subspan(w * static_cast<std::size_t>(columns),
                                                              static_cast<std::size_t>(columns));
        const auto before = static_cast<std::size_t>(samples[w].drafts.count);
        const auto drafts = std::span<const std::int32_t>(tokens).subspan(w + 1 - before, before);
        EXPECT_EQ(result.sampled[w], sample(row, executable.ids(), samples[w], scratch, drafts))
            << "row " << w;
        EXPECT_EQ(round[w + 2], result.sampled[w]);
      }
      ASSERT_EQ(result.logits.empty(), !logits);
      if (logits) {
        EXPECT_EQ(std::memcmp(result.logits.data(), rows.data(), rows.size() * 4), 0);
      }
    }
    EXPECT_EQ(round[0], -7);
  }

  std::unique_ptr<Backend> backend_;
  RandomWeights random_{5};
  int follows_ = 0;
};

std::vector<SamplingParams> every_sampler() {
  std::vector<SamplingParams> all(1);
  for (const float temperature : {0.3F, 1.0F, 4.0F}) {
    for (const int top_k : {0, 1, 20, 256}) {
      for (const float top_p : {1.0F, 0.9F, 0.05F}) {
        for (const float min_p : {0.0F, 0.2F}) {
          if (top_k == 0 && (top_p < 1 || min_p > 0)) continue;  // the host's
          SamplingParams one;
          one.temperature = temperature, one.top_k = top_k, one.top_p = top_p, one.min_p = min_p;
          one.seed = 77 + all.size();
          all.push_back(one);
        }
      }
    }
  }
  return all;
}

TEST_P(CudaSample, GivesTheTokensOfTheHost) {
  const std::vector<SamplingParams> samplers = every_sampler();
  for (const bool labelled : {false, true}) {
    const int columns = labelled ? 300 : 2101;
    std::vector<SampleRow> samples;
    std::vector<float> rows;
    for (std::size_t i = 0; i < samplers.size(); ++i) {
      SampleRow row;
      row.sampler = &samplers[i];
      row.position = static_cast<std::int64_t>(i * 1000) << (i % 3 * 12);
      row.stream = i % 2 == 0 ? Stream::kTarget : Stream::kDraft;
      samples.push_back(row);
      for (int c = 0; c < columns; ++c) rows.push_back(6 * random_.uniform());
    }
    std::vector<std::int32_t> labels;
    for (int c = 0; labelled && c < columns; ++c) labels.push_back(5 * c + 2);
    expect_tokens(columns, labels, rows, samples);
  }
}

TEST_P(CudaSample, GivesTheTokensOfTheHostWhereLogitsAreAlike) {
  SamplingParams greedy, drawn, cut;
  drawn.temperature = 1;
  cut.temperature = 0.7F, cut.top_k = 7, cut.top_p = 0.95F;
  const int columns = 2600;  // more of one value than the list of candidates holds
  std::vector<SampleRow> samples(3);
  samples[0].sampler = &greedy, samples[1].sampler = &drawn, samples[2].sampler = &cut;
  std::vector<float> rows(samples.size() * columns, 2.5F);
  for (std::size_t w = 0; w < samples.size(); ++w) rows[w * columns + 17] = 2.25F;
  expect_tokens(columns, {}, rows, samples);
}

/// The history, biases and mask of one row.
struct Steering {
  std::vector<TokenCount> history;
  std::vector<LogitBias> bias;
  std::vector<std::uint32_t> mask;
};

/// By bits of `kind`: a history, a bias, a mask. Tokens up to `tokens`, some of which have no column.
Steering steering(unsigned kind, std::int32_t tokens, std::mt19937& random) {
  Steering out;
  for (std::int32_t token = 0; token < tokens; ++token) {
    const unsigned dice = random();
    if ((kind & 1) != 0 && dice % 5 == 0) out.history.push_back({token, static_cast<int>(dice / 8 % 4)});
    if ((kind & 2) != 0 && dice % 7 == 0)
      out.bias.push_back({token, static_cast<float>(dice / 8 % 100) / 10 - 5});
  }
  if ((kind & 2) != 0) out.bias.push_back({tokens + 1000, 100});
  if ((kind & 4) != 0) {  // its end forbids the last tokens
    out.mask.resize(static_cast<std::size_t>(tokens) / 32);
    for (std::uint32_t& word : out.mask) word = random() & random();
  }
  return out;
}

TEST_P(CudaSample, PenaltiesBiasesAndMasksGiveTheTokensOfTheHost) {
  std::vector<SamplingParams> samplers = every_sampler();
  std::mt19937 random(31);
  for (const bool labelled : {false, true}) {
    const int columns = labelled ? 300 : 2300;
    std::vector<Steering> steered;
    std::vector<SampleRow> samples;
    std::vector<float> rows;
    for (std::size_t i = 0; i < samplers.size(); ++i) {
      if (i % 3 != 0) samplers[i].repetition = 1.3F, samplers[i].presence = 0.7F;
      if (i % 3 == 2) samplers[i].frequency = 0.4F, samplers[i].repetition = 0.8F;
      steered.push_back(steering(i % 8, labelled ? 5 * columns : columns + 200, random));
      for (int c = 0; c < columns; ++c) rows.push_back(6 * random_.uniform());
    }
    for (std::size_t i = 0; i < samplers.size(); ++i) {
      SampleRow row;
      row.sampler = &samplers[i], row.position = static_cast<std::int64_t>(i) * 100;
      row.history = steered[i].history, row.bias = steered[i].bias, row.mask = steered[i].mask;
      row.drafts = {-1, static_cast<std::int32_t>(std::min<std::size_t>(i + 1, i % 5 * 3))};
      samples.push_back(row);
    }
    for (std::size_t i = 8; i < samples.size(); i += 8) samples[i].history = samples[i - 1].history;
    std::vector<std::int32_t> labels;
    for (int c = 0; labelled && c < columns; ++c) labels.push_back(5 * c + 2);
    expect_tokens(columns, labels, rows, samples);
  }
}

TEST_P(CudaSample, WithoutAFiniteLogitTheFirstAllowedTokenIsTaken) {
  SamplingParams greedy, drawn;
  drawn.temperature = 1;
  const int columns = 2500;
  const std::vector<std::uint32_t> none(80, 0), late = [] {
    std::vector<std::uint32_t> words(80, 0);
    words[70] = 0x50U;
    return words;
  }();
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<LogitBias> all;
  for (std::int32_t token = 0; token < columns; ++token) all.push_back({token, kNever});
  const std::vector<LogitBias> some = {{2244, kNever}, {2246, kNever}};  // what `late` allows
  std::vector<SampleRow> samples(8);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].sampler = i % 2 == 0 ? &greedy : &drawn;
    if (i < 4) samples[i].bias = all;
    if (i >= 6) samples[i].bias = some;
    if (i >= 2) samples[i].mask = i < 6 && i >= 4 ? none : late;
  }
  expect_tokens(columns, {}, std::vector<float>(samples.size() * columns, 1.5F), samples);
}

/// Drafts by place count as emitted, whether the host or the device knows them. With top-p alone the host
/// samples, and later steps still find its tokens by place.
TEST_P(CudaSample, DraftsByPlaceAreThoseThatTheHostKnows) {
  const TestProgram test(TestShape{}, 9);
  const auto executable =
      std::move(backend_->compile(test.program, {.max_rows = 4, .max_logit_rows = 4}).value());
  const auto state =
      std::move(backend_->make_state(test.program.layout(), {.slots = 1, .blocks = 2}).value());
  const std::vector<std::int32_t> blocks = {0, 1}, logit_rows = {0};
  enum class Drafts { kKnown, kOfTheStep, kOfTheRound };
  const auto chain = [&](Drafts drafts, const SampleRow& row) {
    std::vector<std::int32_t> round(4, 0);
    std::int32_t token = 3;
    for (int step = 0; step < 4; ++step) {
      const bool by_place = drafts != Drafts::kKnown && step > 0;
      const std::vector<std::int32_t> tokens = {by_place ? -1 - (step - 1) : token};
      const Segment segment{{blocks, 0, 0, 0}, step, 1, 1};
      SampleRow own = row;
      own.position = step, own.store = step;
      own.drafts = drafts == Drafts::kOfTheRound && step > 0 ? DraftPlaces{step - 1, 1} : DraftPlaces{-1, 1};
      StepArgs args;
      args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = logit_rows;
      args.samples = {&own, 1}, args.round_tokens = round, args.logits = drafts == Drafts::kKnown;
      executable->submit(args, *state);
      if (drafts != Drafts::kKnown) continue;
      const StepResult result = executable->collect();
      SampleScratch scratch;
      EXPECT_EQ(result.sampled[0], sample(result.logits, executable->ids(), own, scratch, tokens));
      token = result.sampled[0];
    }
    executable->collect();
    return round;
  };
  SamplingParams plain, penalised, cut;
  penalised.repetition = 3;
  cut.temperature = 1, cut.top_p = 0.5F, cut.presence = 2;
  const std::vector<LogitBias> bias = {{5, 4.0F}};
  const std::vector<std::uint32_t> mask = {0x00F0F0F0U, 1U};
  for (const SamplingParams* sampler : {&plain, &penalised, &cut}) {
    for (const bool steered : {false, true}) {
      SampleRow row;
      row.sampler = sampler;
      if (steered) row.bias = bias, row.mask = mask;
      const std::vector<std::int32_t> known = chain(Drafts::kKnown, row);
      EXPECT_EQ(chain(Drafts::kOfTheStep, row), known);
      EXPECT_EQ(chain(Drafts::kOfTheRound, row), known);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaSample, testing::ValuesIn(cuda_devices()),
                         [](const auto& device) { return device.param == "auto" ? "gpu" : device.param; });

}  // namespace
}  // namespace ft::cuda_sample_test
