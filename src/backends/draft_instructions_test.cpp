// The instructions that only drafters use, against their definition in program/instructions.h: on every
// backend, with rows alone and together.
#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>

#include "backends/cuda/test_devices.h"
#include "backends/instruction_programs.h"
#include "backends/registry.h"
#include "backends/test_timeline.h"
#include "backends/weight_rows.h"
#include "sampling/sample.h"

namespace ft::draft_instructions_test {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<float> values_of(const Weight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.cols));
  read_rows(weight, 0, weight.rows, values.data());
  return values;
}

/// ref, cpu, or a device of cuda.
std::unique_ptr<Backend> backend_of(const std::string& name) {
  if (name != "ref" && name != "cpu") return std::move(cuda_on(name).value());
  return std::move(make_backend({.name = name, .threads = 3}).value());
}

std::vector<std::string> backends() {
  std::vector<std::string> names = cuda_devices();
  names.insert(names.begin(), {"ref", "cpu"});
  return names;
}

/// One step of several segments, with hidden rows of `width`.
struct Block {
  std::vector<int> segments;
  std::vector<float> rows;
  int width;

  int count() const { return static_cast<int>(rows.size()) / width; }
};

/// Capture 0, of width `out_width`, and the samples after one step.
struct Outcome {
  std::vector<float> captured;
  std::vector<std::int32_t> round_tokens;
};

class DraftInstructions : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "ref" || GetParam() == "cpu") return;
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }

  Outcome run(const Program& program, const Block& block, int out_width, std::span<const std::int32_t> tokens,
              std::span<const std::int32_t> logit_rows, std::span<const SampleRow> samples) {
    const auto backend = backend_of(GetParam());
    CompileOptions options;
    options.max_rows = block.count(), options.max_logit_rows = std::max<int>(1, block.count());
    auto compiled = backend->compile(program, options);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message;
    executable_ = std::move(*compiled);
    const auto state = std::move(backend->make_state(program.layout(), {8, 16}).value());
    const auto hidden = std::move(backend->make_rows(block.width, block.count()).value());
    const auto out = std::move(backend->make_rows(std::max(1, out_width), block.count()).value());
    hidden->write(0, block.rows);
    std::vector<std::int32_t> places(static_cast<std::size_t>(block.count()));
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
    std::vector<Segment> segments;
    std::vector<std::array<std::int32_t, 1>> blocks(block.segments.size());
    for (std::size_t s = 0; s < block.segments.size(); ++s) {
      blocks[s] = {static_cast<std::int32_t>(s)};
      segments.push_back({{blocks[s], static_cast<std::int32_t>(s), 0, 0}, 0, block.segments[s], 0});
    }
    std::vector<std::int32_t> none(static_cast<std::size_t>(block.count()));
    Outcome outcome{std::vector<float>(static_cast<std::size_t>(block.count() * out_width)),
                    std::vector<std::int32_t>(samples.size(), -1)};
    StepArgs args;
    args.tokens = tokens.empty() ? std::span<const std::int32_t>(none) : tokens;
    args.hidden = {hidden.get(), places};
    args.segments = segments;
    args.logit_rows = logit_rows, args.samples = samples;
    args.round_tokens = outcome.round_tokens;
    if (out_width > 0) args.capture = CapturePlaces(out.get(), places);
    result_ = executable_->run(args, *state);
    if (out_width > 0) out->read(0, outcome.captured);
    return outcome;
  }

  RandomWeights random_{11};
  std::unique_ptr<Executable> executable_;
  StepResult result_;
};

// ---- local_conv ----

struct Convolved {
  Program program;
  std::vector<float> base;
};
constexpr int kWidth = 45, kGroups = 5;

Convolved convolution(RandomWeights& random, int taps, int side) {
  Convolved made;
  const Weight base = random.plain(Format::kBf16, 2, taps * kWidth, 0.5F);
  made.base = values_of(base);
  const Row in = made.program.input(kWidth + 2 * taps * kGroups);
  const Row x = made.program.append(Slice{in, 0, kWidth, {}});
  const Row coefficients = made.program.append(Slice{in, kWidth, 2 * taps * kGroups, {}});
  made.program.capture("out", made.program.append(LocalConv{x, coefficients, base, taps, kGroups, side, {}}));
  return made;
}

TEST_P(DraftInstructions, LocalConvReadsTheRowsBeforeInItsOwnSegmentOnly) {
  for (const int taps : {1, 2, 3}) {
    for (const int side : {0, 1}) {
      const Convolved made = convolution(random_, taps, side);
      Block block{{1, 4, 7, 16, 2}, {}, kWidth + 2 * taps * kGroups};
      block.rows = random_rows(random_, 30, block.width);
      const Outcome got = run(made.program, block, kWidth, {}, {}, {});
      int first = 0;
      for (const int rows : block.segments) {
        for (int j = 0; j < rows; ++j) {
          for (int c = 0; c < kWidth; ++c) {
            float expected = 0;
            for (int t = 0; t <= std::min(taps - 1, j); ++t) {
              const int of = side * taps + t;
              const float* own = block.rows.data() + (first + j) * block.width + kWidth;
              expected += (made.base[static_cast<std::size_t>(of * kWidth + c)] +
                           own[of * kGroups + c / (kWidth / kGroups)]) *
                          block.rows[static_cast<std::size_t>((first + j - t) * block.width + c)];
            }
            ASSERT_NEAR(got.captured[static_cast<std::size_t>((first + j) * kWidth + c)], expected, 1e-5)
                << taps << " taps, side " << side << ", row " << j << " of " << rows;
          }
        }
        first += rows;
      }
    }
  }
}

// ---- walk ----

constexpr int kHidden = 24, kTokens = 61, kRank = 7, kCandidates = 5, kMask = 13;

struct Walked {
  Program program;
  std::vector<float> head, factors, predecessor, successor;
};

Walked walked(RandomWeights& random, bool with_factors, int candidates = kCandidates) {
  Walked made;
  const Weight head = random.plain(Format::kF32, kTokens, kHidden, 0.4F);
  const Weight factors = random.plain(Format::kF32, kRank, kHidden, 0.4F);
  const Weight before = random.plain(Format::kF32, kTokens, kRank, 0.8F);
  const Weight after = random.plain(Format::kF32, kTokens, kRank, 0.8F);
  made.head = values_of(head), made.factors = values_of(factors);
  made.predecessor = values_of(before), made.successor = values_of(after);
  const Row in = made.program.input(kHidden);
  Walk walk{{}, before, after, candidates, kMask};
  if (with_factors) walk.factors = made.program.linear(in, {factors})[0];
  made.program.logits(in, head);
  made.program.walk(walk);
  return made;
}

float product(const float* a, const float* b, int size) {
  double sum = 0;
  for (int i = 0; i < size; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

/// The scores of the candidates of a row, as the definition has them.
std::map<std::int32_t, float> expected_scores(const Walked& made, const float* row, std::int32_t before,
                                              bool with_factors, int candidates,
                                              std::span<const std::uint32_t> mask = {}) {
  std::vector<std::pair<float, std::int32_t>> order;
  for (std::int32_t v = 0; v < kTokens; ++v) {
    if (v == kMask) continue;
    if (!mask.empty() && (mask[static_cast<std::size_t>(v / 32)] >> (v % 32) & 1U) == 0) continue;
    order.emplace_back(-product(row, made.head.data() + v * kHidden, kHidden), v);
  }
  std::ranges::sort(order);
  order.resize(std::min(order.size(), static_cast<std::size_t>(candidates)));
  std::map<std::int32_t, float> scores;
  for (const auto& [negative, v] : order) {
    float sum = -negative;
    for (int r = 0; r < kRank; ++r) {
      const float factor = with_factors ? product(row, made.factors.data() + r * kHidden, kHidden) : 1.0F;
      sum += made.predecessor[static_cast<std::size_t>(before * kRank + r)] * factor *
             made.successor[static_cast<std::size_t>(v * kRank + r)];
    }
    scores[v] = sum;
  }
  return scores;
}

std::int32_t best_of(const std::map<std::int32_t, float>& scores) {
  return std::ranges::max_element(scores, {}, [](const auto& entry) { return entry.second; })->first;
}

/// Two blocks and a slot that drafts nothing; the first row of a block does not draft, as in DFlash2.
struct WalkedBlock {
  Block block{{6, 1, 4}, {}, kHidden};
  std::vector<std::int32_t> tokens = {3, kMask, kMask, kMask, kMask, kMask, 9, 40, kMask, kMask, kMask};
  std::vector<std::int32_t> logit_rows = {1, 2, 3, 4, 5, 8, 9, 10};
  std::vector<SampleRow> samples;

  WalkedBlock(RandomWeights& random, const SamplingParams& sampler) {
    block.rows = random_rows(random, 11, kHidden);
    for (std::size_t w = 0; w < logit_rows.size(); ++w) {
      SampleRow row;
      row.sampler = &sampler;
      row.position = 20 + static_cast<std::int64_t>(w);
      row.store = static_cast<std::int32_t>(w);
      samples.push_back(row);
    }
  }
  /// The token before each logit row's draft.
  std::int32_t before(std::size_t w, std::span<const std::int32_t> drafts) const {
    return w == 0 ? 3 : w == 5 ? 40 : drafts[w - 1];
  }
};

TEST_P(DraftInstructions, WalkChoosesAmongTheCandidatesByTheDraftBefore) {
  for (const bool with_factors : {true, false}) {
    for (const int candidates : {1, kCandidates, 40}) {
      const Walked made = walked(random_, with_factors, candidates);
      const SamplingParams greedy;
      const WalkedBlock walk(random_, greedy);
      const Outcome got = run(made.program, walk.block, 0, walk.tokens, walk.logit_rows, walk.samples);
      for (std::size_t w = 0; w < walk.samples.size(); ++w) {
        const auto scores = expected_scores(made, walk.block.rows.data() + walk.logit_rows[w] * kHidden,
                                            walk.before(w, got.round_tokens), with_factors, candidates);
        EXPECT_EQ(got.round_tokens[w], best_of(scores)) << "row " << w << ", " << candidates;
        EXPECT_EQ(result_.sampled[w], got.round_tokens[w]);
      }
    }
  }
}

TEST_P(DraftInstructions, WalkWithNoiseIsTheSampleOfTheCandidates) {
  const Walked made = walked(random_, true);
  SamplingParams sampler;
  sampler.temperature = 1.5F, sampler.seed = 77;
  const WalkedBlock walk(random_, sampler);
  const Outcome got = run(made.program, walk.block, 0, walk.tokens, walk.logit_rows, walk.samples);
  SampleScratch scratch;
  int other = 0;
  for (std::size_t w = 0; w < walk.samples.size(); ++w) {
    const auto scores = expected_scores(made, walk.block.rows.data() + walk.logit_rows[w] * kHidden,
                                        walk.before(w, got.round_tokens), true, kCandidates);
    std::vector<std::int32_t> ids;
    std::vector<float> values;
    for (const auto& [id, score] : scores) ids.push_back(id), values.push_back(score);
    EXPECT_EQ(got.round_tokens[w], sample(values, ids, walk.samples[w], scratch));
    other += got.round_tokens[w] != best_of(scores) ? 1 : 0;
  }
  EXPECT_GT(other, 0) << "the noise changes nothing";
}

TEST_P(DraftInstructions, TheHostHasTheCandidatesOfEachRow) {
  const Walked made = walked(random_, true);
  const SamplingParams greedy;
  const WalkedBlock walk(random_, greedy);
  run(made.program, walk.block, 0, walk.tokens, walk.logit_rows, walk.samples);
  const std::vector<std::uint32_t> masks[] = {{}, {0xF0F0F0F0U, 0x0F0F0F0FU}, {0x00000008U, 0}};
  WalkCandidates got;
  for (const auto& mask : masks) {
    for (std::size_t w = 0; w < walk.logit_rows.size(); ++w) {
      executable_->walk_candidates(w, 17, mask, got);
      const auto scores = expected_scores(made, walk.block.rows.data() + walk.logit_rows[w] * kHidden, 17,
                                          true, kCandidates, mask);
      ASSERT_EQ(got.ids.size(), scores.size());
      std::size_t at = 0;
      for (const auto& [id, score] : scores) {
        EXPECT_EQ(got.ids[at], id);
        EXPECT_NEAR(got.scores[at++], score, 1e-4);
      }
    }
  }
}

// ---- cluster_logits ----

TEST_P(DraftInstructions, ClusterLogitsAreThoseOfTheChosenClusters) {
  constexpr int kClusters = 9, kSize = 7, kChosen = 3, kRows = 5;
  Program program;
  const Weight table = random_.plain(Format::kBf16, kClusters * kSize, kHidden, 0.4F);
  const Weight centroids = random_.plain(Format::kF32, kClusters, kHidden, 0.4F);
  const std::vector<float> head = values_of(table), centres = values_of(centroids);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < kClusters * kSize; ++i) tokens.push_back(i * 10 % (kClusters * kSize));
  const Row in = program.input(kHidden);
  const Row routes = program.append(TopKRouter{program.linear(in, {centroids})[0], kChosen, true, {}, {}});
  program.logits(ClusterLogits{in, routes, table, kClusters, tokens, 3});
  program.sample();
  const Block block{{kRows}, random_rows(random_, kRows, kHidden), kHidden};
  const std::vector<std::int32_t> logit_rows = {0, 2, 4};
  run(program, block, 0, {}, logit_rows, {});
  ASSERT_EQ(executable_->vocabulary(), kClusters * kSize);
  for (std::size_t w = 0; w < logit_rows.size(); ++w) {
    const float* row = block.rows.data() + logit_rows[w] * kHidden;
    std::vector<std::pair<float, int>> order;
    for (int c = 0; c < kClusters; ++c)
      order.emplace_back(-product(row, centres.data() + c * kHidden, kHidden), c);
    std::ranges::sort(order);
    std::vector<float> expected(kClusters * kSize, kNever);
    for (int j = 0; j < kChosen * kSize; ++j) {
      const auto token = static_cast<std::size_t>(tokens[static_cast<std::size_t>(
          order[static_cast<std::size_t>(j / kSize)].second * kSize + j % kSize)]);
      expected[token] = 3 * std::tanh(product(row, head.data() + token * kHidden, kHidden) / 3);
    }
    for (std::size_t v = 0; v < expected.size(); ++v) {
      const float got = result_.logits[w * expected.size() + v];
      if (expected[v] == kNever) {
        EXPECT_EQ(got, kNever) << v;
      } else {
        EXPECT_NEAR(got, expected[v], 1e-4) << v;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DraftInstructions, testing::ValuesIn(backends()),
                         [](const auto& which) { return which.param == "auto" ? "gpu" : which.param; });

}  // namespace
}  // namespace ft::draft_instructions_test
