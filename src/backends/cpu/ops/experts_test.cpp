// Routing and experts alone: compared with their definition; equal bits for a row whatever its neighbours
// choose, for every number of threads and every instruction set; only chosen experts are read.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "backends/cpu/kernels/features.h"
#include "backends/random_weights.h"
#include "backends/ref/backend.h"
#include "backends/registry.h"
#include "backends/test_rows.h"

namespace ft::experts_test {
namespace {

constexpr int kWidth = 128, kExperts = 9, kChosen = 3, kMaxRows = 40;

struct ExpertsCase {
  Format format = Format::kAffine;
  int bits = 4, group = 32;
  int size = 96;
  Activation activation = Activation::kSilu;
  bool biased = false;

  Weight weight(RandomWeights& random, int rows, int cols) const {
    if (format == Format::kAffine) return random.affine(rows, cols, bits, group);
    return is_block_float(format)
               ? random.block_float(format, rows, cols)
               : random.plain(format, rows, cols, 1.7F / std::sqrt(static_cast<float>(cols)));
  }
};

std::vector<ExpertsCase> cases() {
  std::vector<ExpertsCase> all;
  for (const int bits : {2, 3, 4, 5, 6, 8}) all.push_back({.bits = bits});
  for (const Format format :
       {Format::kMxfp4, Format::kMxfp8, Format::kNvfp4, Format::kBf16, Format::kF16, Format::kF32})
    all.push_back({.format = format});
  all.push_back({.format = Format::kBf16, .size = 21, .activation = Activation::kGeluTanh});
  for (const Format format : {Format::kMxfp4, Format::kAffine})
    all.push_back({.format = format, .activation = Activation::kClampedSwiglu, .biased = true});
  all.push_back(
      {.format = Format::kBf16, .size = 21, .activation = Activation::kClampedSwiglu, .biased = true});
  return all;
}

std::string text(const ExpertsCase& test) {
  return std::string(format_name(test.format)) + " " + std::to_string(test.bits) + " size " +
         std::to_string(test.size) + (test.biased ? " biased" : "");
}

/// Rows of [scores, input] through a route and its experts.
class Mixture {
 public:
  Mixture(const ExpertsCase& test, std::uint64_t seed, const TopKRouter& route = {}) : random_(seed) {
    const Row both = program_.input(kExperts + kWidth);
    TopKRouter own = route;
    own.scores = program_.append(Slice{both, 0, kExperts, {}});
    own.chosen = kChosen;
    experts_.in = program_.append(Slice{both, kExperts, kWidth, {}});
    experts_.routes = program_.append(own);
    experts_.activation = test.activation, experts_.limit = 1.5F;  // beyond it are many values
    for (int e = 0; e < kExperts; ++e) {
      experts_.gate.push_back(test.weight(random_, test.size, kWidth));
      experts_.up.push_back(test.weight(random_, test.size, kWidth));
      experts_.down.push_back(test.weight(random_, kWidth, test.size));
    }
    if (!test.biased) return;
    experts_.gate_bias = random_.plain(Format::kBf16, kExperts, test.size, 1);
    experts_.up_bias = random_.plain(Format::kF32, kExperts, test.size, 1);
    experts_.down_bias = random_.plain(Format::kBf16, kExperts, kWidth, 1);
  }
  MoeMlp& experts() { return experts_; }
  RandomWeights& random() { return random_; }
  /// Captured: the sum of the experts, or with `routes` the choice.
  Program program(bool routes = false) const {
    Program whole = program_;
    routes ? whole.capture("routes", experts_.routes) : whole.capture("out", whole.append(MoeMlp(experts_)));
    return whole;
  }

 private:
  RandomWeights random_;
  Program program_;
  MoeMlp experts_;
};

struct Machine {
  Machine(const Program& program, const std::string& isa, int threads, int activations = 8)
      : backend_(make(isa, threads, activations)) {
    auto compiled = backend_->compile(program, {.max_rows = kMaxRows, .max_logit_rows = 1});
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    executable_ = std::move(compiled.value());
    state_ = std::move(backend_->make_state(program.layout(), {.slots = 1, .blocks = 1}).value());
  }
  /// rows [rows, kExperts + kWidth] -> [rows, width]
  std::vector<float> run(std::span<const float> rows, int width) {
    const auto count = static_cast<std::int32_t>(rows.size()) / (kExperts + kWidth);
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), 0);
    const std::vector<std::int32_t> blocks = {0};
    const std::vector<Segment> segments = {{{blocks, 0, 0, 0}, 0, count, count}};
    StepArgs args;
    args.tokens = tokens;
    args.segments = segments;
    return run_rows(*backend_, *executable_, *state_, args, rows, width).captured;
  }

 private:
  static std::unique_ptr<Backend> make(const std::string& isa, int threads, int activations) {
    if (isa == "ref") return make_ref_backend();
    return std::move(
        make_backend(
            {.name = "cpu", .threads = threads, .settings = {{"isa", isa}, {"activations", activations}}})
            .value());
  }
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<State> state_;
};

std::vector<float> random_rows(RandomWeights& random, int count) {
  std::vector<float> rows(static_cast<std::size_t>(count * (kExperts + kWidth)));
  for (float& value : rows) value = 2 * random.uniform();
  return rows;
}

std::span<const float> row_of(std::span<const float> rows, int row) {
  constexpr std::size_t kRow = kExperts + kWidth;
  return rows.subspan(static_cast<std::size_t>(row) * kRow, kRow);
}

TEST(CpuExperts, AgreeWithTheReferenceInEveryFormat) {
  for (const ExpertsCase& test : cases()) {
    SCOPED_TRACE(text(test));
    Mixture mixture(test, 5);
    const std::vector<float> rows = random_rows(mixture.random(), kMaxRows);
    const std::vector<float> expected = Machine(mixture.program(), "ref", 1).run(rows, kWidth);
    const std::vector<float> got = Machine(mixture.program(), "auto", 2, 16).run(rows, kWidth);
    double squares = 0, errors = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
      errors += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    }
    EXPECT_GT(squares, 0);
    EXPECT_LT(std::sqrt(errors / squares), 1e-3) << "codes are multiplied with 16-bit activations";
  }
}

TEST(CpuExperts, ARowHasTheSameBitsWhateverItsNeighboursChoose) {
  for (const ExpertsCase& test : cases()) {
    Mixture mixture(test, 6);
    const std::vector<float> rows = random_rows(mixture.random(), kMaxRows);
    for (const int activations : {8, 16}) {
      SCOPED_TRACE(text(test) + ", activations of " + std::to_string(activations));
      Machine one(mixture.program(), "auto", 1, activations);
      std::vector<float> alone;
      for (int r = 0; r < kMaxRows; ++r) {
        const std::vector<float> out = one.run(row_of(rows, r), kWidth);
        alone.insert(alone.end(), out.begin(), out.end());
      }
      for (const int threads : {1, 3}) {
        Machine machine(mixture.program(), "auto", threads, activations);
        for (int count = 1; count <= kMaxRows; count += threads == 1 && count < 17 ? 1 : 13) {
          const auto first = std::span(rows).first(static_cast<std::size_t>(count * (kExperts + kWidth)));
          const std::vector<float> together = machine.run(first, kWidth);
          ASSERT_TRUE(std::ranges::equal(together, std::span(alone).first(together.size())))
              << count << " rows, " << threads << " threads";
        }
      }
    }
  }
}

TEST(CpuExperts, EveryInstructionSetGivesTheSameBits) {
  for (const ExpertsCase& test : cases()) {
    Mixture mixture(test, 7);
    const std::vector<float> rows = random_rows(mixture.random(), kMaxRows);
    for (const int activations : {8, 16}) {
      std::vector<float> expected;
      for (const cpu::Kernels* kernels : cpu::available_kernels()) {
        const std::vector<float> got =
            Machine(mixture.program(), kernels->name, 2, activations).run(rows, kWidth);
        if (expected.empty()) expected = got;
        EXPECT_EQ(got, expected) << text(test) << " " << kernels->name;
      }
    }
  }
}

TEST(CpuExperts, AnExpertThatNoRowChoseIsNotUsed) {
  const ExpertsCase plain{.format = Format::kF32};
  Mixture mixture(plain, 8);
  std::vector<float> rows = random_rows(mixture.random(), 4);
  for (int r = 0; r < 4; ++r) rows[static_cast<std::size_t>(r * (kExperts + kWidth) + 2)] = -100;
  const std::vector<float> expected = Machine(mixture.program(), "auto", 2).run(rows, kWidth);
  const std::vector<float> nonsense(static_cast<std::size_t>(plain.size * kWidth),
                                    std::numeric_limits<float>::quiet_NaN());
  for (auto* list : {&mixture.experts().gate, &mixture.experts().up, &mixture.experts().down})
    (*list)[2].data = reinterpret_cast<const std::byte*>(nonsense.data());
  EXPECT_EQ(Machine(mixture.program(), "auto", 2).run(rows, kWidth), expected);
  EXPECT_EQ(Machine(mixture.program(), "ref", 1).run(rows, kWidth).size(), expected.size());
}

/// The choice of one row of scores on a backend: indices, then weights.
std::vector<float> choice(const std::string& isa, std::vector<float> scores, const TopKRouter& route = {}) {
  Mixture mixture({.format = Format::kF32, .size = 16}, 9, route);
  scores.resize(kExperts + kWidth);
  return Machine(mixture.program(true), isa, 1).run(scores, 2 * kChosen);
}

TEST(CpuRoute, TiesGoToTheLowestIndexInFallingOrderOfScore) {
  for (const char* isa : {"ref", "auto"}) {
    const std::vector<float> tied = choice(isa, {1, 2, 2, 0, 2, 2, 1, 2, 0});
    EXPECT_EQ(std::vector(tied.begin(), tied.begin() + 3), (std::vector<float>{1, 2, 4})) << isa;
    const std::vector<float> mixed = choice(isa, {0, 0, 3, 0, 5, 0, 3, 0, 0});
    EXPECT_EQ(std::vector(mixed.begin(), mixed.begin() + 3), (std::vector<float>{4, 2, 6})) << isa;
    const std::vector<float> equal = choice(isa, std::vector<float>(kExperts, 7));
    EXPECT_EQ(std::vector(equal.begin(), equal.begin() + 3), (std::vector<float>{0, 1, 2})) << isa;
  }
}

TEST(CpuRoute, WeightsAreTheSoftmaxInItsVariants) {
  const std::vector<float> scores = {0, 1, 2, 3, 0, 0, 0, 0, 0};
  RandomWeights random(3);
  const Weight scale = random.plain(Format::kF32, 1, kExperts, 1, 2);
  TopKRouter not_renormalised, with_scale;
  not_renormalised.renormalised = false;
  with_scale.scale = scale;
  double all = 0;
  for (const float score : scores) all += std::exp(static_cast<double>(score));
  const double top = std::exp(3.0) + std::exp(2.0) + std::exp(1.0);
  for (const char* isa : {"ref", "auto"}) {
    const std::vector<float> usual = choice(isa, scores);
    const std::vector<float> share = choice(isa, scores, not_renormalised);
    const std::vector<float> scaled = choice(isa, scores, with_scale);
    for (int j = 0; j < kChosen; ++j) {
      const auto at = static_cast<std::size_t>(kChosen + j);
      EXPECT_NEAR(usual[at], std::exp(3.0 - j) / top, 1e-6) << isa;
      EXPECT_NEAR(share[at], std::exp(3.0 - j) / all, 1e-6) << isa;
      const float factor = reinterpret_cast<const float*>(scale.data)[3 - j] + 2;
      EXPECT_NEAR(scaled[at], static_cast<double>(usual[at] * factor), 1e-5) << isa;
    }
  }
}

/// The bias decides the choice alone: the weights are the sigmoids.
TEST(CpuRoute, SigmoidsWithABiasForTheChoice) {
  const std::vector<float> scores = {0, 1, 2, 3, -100, 100, 0, 0, 0};
  const std::vector<float> bias = {0, 0, 0.5F, -1, 2, -0.25F, 0, 0, 0};  // the choice: 4, 2, 5
  TopKRouter route;
  route.score = RouterScore::kSigmoid, route.factor = 2.5F;
  route.selection_bias.rows = 1, route.selection_bias.cols = kExperts;
  route.selection_bias.format = Format::kF32;
  route.selection_bias.data = reinterpret_cast<const std::byte*>(bias.data());
  const double of_2 = 1 / (1 + std::exp(-2.0));
  for (const char* isa : {"ref", "auto"}) {
    const std::vector<float> shares = choice(isa, scores, route);
    EXPECT_EQ(std::vector(shares.begin(), shares.begin() + 3), (std::vector<float>{4, 2, 5})) << isa;
    EXPECT_NEAR(shares[3], 0, 1e-30) << isa;
    EXPECT_NEAR(shares[4], 2.5 * of_2 / (of_2 + 1), 1e-6) << isa;
    EXPECT_NEAR(shares[5], 2.5 / (of_2 + 1), 1e-6) << isa;
    TopKRouter raw = route;
    raw.renormalised = false;
    const std::vector<float> weights = choice(isa, scores, raw);
    EXPECT_NEAR(weights[4], 2.5 * of_2, 1e-6) << isa;
    EXPECT_NEAR(weights[5], 2.5, 1e-6) << isa;
    const std::vector<float> none = choice(isa, std::vector<float>(kExperts, -200.0F), route);
    for (int j = 0; j < kChosen; ++j) EXPECT_LE(none[static_cast<std::size_t>(kChosen + j)], 1) << isa;
  }
}

TEST(CpuRoute, ScoresThatAreNotNumbersStillChooseDistinctExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  TopKRouter by_sigmoid;
  by_sigmoid.score = RouterScore::kSigmoid;
  for (const auto& [scores, route] :
       {std::pair{std::vector<float>(kExperts, nan), TopKRouter{}},
        std::pair{std::vector<float>{nan, 1, nan, 2, 3, nan, 0, 4, nan}, TopKRouter{}},
        std::pair{std::vector<float>{nan, 1, nan, 2, 3, nan, 0, 4, nan}, by_sigmoid}}) {
    const std::vector<float> got = choice("auto", scores, route);
    EXPECT_NE(got[0], got[1]);
    EXPECT_NE(got[1], got[2]);
    EXPECT_NE(got[0], got[2]);
    for (int j = 0; j < kChosen; ++j) EXPECT_LT(got[static_cast<std::size_t>(j)], kExperts);
  }
}

}  // namespace
}  // namespace ft::experts_test
