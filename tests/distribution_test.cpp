// Sampled answers have the target's own distribution, end to end: the first tokens of thousands of seeds
// through prompts, drafts and verification, against probabilities enumerated from plain logits.
#include "sampling/distribution.h"

#include <cmath>
#include <functional>

#include "sampling/history.h"
#include "tests/full_run.h"
#include "tests/toy_decoder.h"

namespace ft::test::distribution_test {
namespace {

constexpr int kVocabulary = 7;
constexpr int kTokens = 3;
constexpr int kSeeds = 1200;
constexpr int kOutcomes = kVocabulary * kVocabulary * kVocabulary;
const std::vector<std::int32_t> kPrompt = {3, 1, 4, 1, 5};

ToyOptions tiny(bool walks = false, bool anchor = false) {
  ToyOptions options;
  options.folders = true, options.walks = walks, options.anchor = anchor;
  options.vocabulary = kVocabulary;
  options.hidden = 32;
  return options;
}

/// `walks`: the drafter is like DFlash2; `anchor`: like DSpark.
struct Network {
  DrafterKind drafter;
  bool walks = false, anchor = false;
  std::string text() const { return std::string(drafter.name()) + (anchor ? " anchor" : walks ? "2" : ""); }
};
const Network kNetworks[] = {{DrafterKind::kEagle3},       {DrafterKind::kDflash},
                             {DrafterKind::kDflash, true}, {DrafterKind::kDflash, true, true},
                             {DrafterKind::kAssistant},    {DrafterKind::kModel}};

struct Case {
  SamplingParams sampler;
  std::vector<std::uint32_t> mask;
  std::vector<LogitBias> bias;
};

Case case_of(const std::string& name) {
  Case result;
  result.sampler.temperature = 1.2F;
  if (name == "penalties") {
    result.sampler.presence = 0.8F, result.sampler.frequency = 0.6F, result.sampler.repetition = 1.4F;
  }
  if (name == "mask") result.mask = {0x5BU}, result.bias = {{1, 0.7F}, {4, -0.5F}};
  if (name == "filters")
    result.sampler.temperature = 0.9F, result.sampler.top_p = 0.9F, result.sampler.min_p = 0.03F;
  return result;
}

/// Probability of every outcome t0 * 49 + t1 * 7 + t2. `forgets`: a wrong rule that ignores its own emitted
/// tokens.
std::vector<double> exact(ToyDecoder& decoder, const Case& parameters, bool forgets = false) {
  std::vector<double> result(kOutcomes);
  SampleScratch scratch;
  const std::function<void(std::vector<std::int32_t>, int, double)> walk =
      [&](std::vector<std::int32_t> tokens, int code, double weight) {
        const int emitted = static_cast<int>(tokens.size() - kPrompt.size());
        if (emitted == kTokens) {
          result[static_cast<std::size_t>(code)] += weight;
          return;
        }
        History history;
        history.add_prompt(kPrompt);
        for (int i = 0; i < emitted && !forgets; ++i)
          history.add_output(tokens[kPrompt.size() + static_cast<std::size_t>(i)]);
        SampleRow row;
        row.sampler = &parameters.sampler;
        row.history = history.counts();
        row.mask = parameters.mask;
        row.bias = parameters.bias;
        Distribution chances;
        EXPECT_TRUE(decoder
                        ->score(tokens, 0,
                                [&](std::int64_t position, std::span<const float> logits) {
                                  if (position + 1 == static_cast<std::int64_t>(tokens.size()))
                                    distribution(logits, {}, row, scratch, chances);
                                })
                        .ok());
        for (const auto& [token, probability] : chances.entries) {
          std::vector<std::int32_t> longer = tokens;
          longer.push_back(token);
          walk(longer, code * kVocabulary + token, weight * static_cast<double>(probability));
        }
      };
  walk(kPrompt, 0, 1);
  return result;
}

/// Count of each outcome, with the accepted drafts.
struct Counts {
  std::vector<int> of = std::vector<int>(kOutcomes);
  std::int64_t drafted = 0, accepted = 0;
};

Counts sample(ToyDecoder& decoder, const Case& parameters, Acceptance acceptance, int depth,
              std::uint64_t first, DrafterKind drafter = DrafterKind::kMtp) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SlotOptions options;
    options.sampler = parameters.sampler;
    options.sampler.seed = first + seed * 7919;
    options.mask = parameters.mask;
    options.bias = parameters.bias;
    options.acceptance = acceptance;
    options.depth = depth;
    options.max_tokens = depth + 2;  // enough budget for the first round to draft at full depth
    const auto slot = decoder.open(kPrompt, options, drafter);
    Slot* one = slot.get();
    while (slot->output_tokens() < kTokens && slot->finish == Finish::kNone) decoder->round({&one, 1});
    int code = 0;
    for (int i = 0; i < kTokens; ++i) {
      code = code * kVocabulary + slot->tokens[kPrompt.size() + static_cast<std::size_t>(i)];
    }
    ++counts.of[static_cast<std::size_t>(code)];
    counts.drafted += slot->report.drafted;
    counts.accepted += slot->report.accepted;
    decoder->close(*slot);
  }
  return counts;
}

/// Standard deviations by which the chi-square statistic exceeds its mean (Wilson and Hilferty 1931).
/// Outcomes expected less than five times are counted together.
double surprise(const std::vector<int>& counts, const std::vector<double>& expected) {
  double statistic = 0, rest = 0;
  int rest_count = 0, cells = 0;
  const auto add = [&](double count, double mean) {
    statistic += (count - mean) * (count - mean) / mean;
    ++cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double mean = expected[i] * kSeeds;
    if (mean < 1e-9 && counts[i] > 0) return 1e9;  // an impossible outcome
    if (mean >= 5) {
      add(counts[i], mean);
    } else {
      rest += mean, rest_count += counts[i];
    }
  }
  if (rest >= 1) add(rest_count, rest);
  const double freedom = cells - 1;
  const double variance = 2 / (9 * freedom);
  return (std::cbrt(statistic / freedom) - (1 - variance)) / std::sqrt(variance);
}

/// The coupled rule gives the tokens of plain decoding, which the losslessness matrix compares, so here one
/// sampler is enough. For rejection sampling this is the only proof.
std::vector<Acceptance> rules_of(const std::string& sampler) {
  if (sampler != "plain" && !full_run()) return {Acceptance::kRejection};
  return {Acceptance::kCoupled, Acceptance::kRejection};
}

/// Other samplers change the target's distribution, not how a network drafts, so two networks are enough.
std::vector<Network> networks_of(const std::string& sampler) {
  if (sampler != "plain" && !full_run()) return {kNetworks[0], kNetworks[2]};
  return {std::begin(kNetworks), std::end(kNetworks)};
}

class DistributionTest : public testing::TestWithParam<const char*> {
 protected:
  ToyDecoder decoder_{1, tiny(), 64};
  ToyDecoder walking_{1, tiny(true), 64};  // the same target
  ToyDecoder anchored_{1, tiny(true, true), 64};
};

TEST_P(DistributionTest, OfTheFirstTokensIsExactUnderBothRulesAtEveryDepth) {
  const Case parameters = case_of(GetParam());
  const std::vector<double> expected = exact(decoder_, parameters);
  std::int64_t drafted = 0, accepted = 0;
  const std::vector<Acceptance> rules = rules_of(GetParam());
  for (const Acceptance rule : rules) {
    for (const int depth : {1, 2, 4}) {
      const Counts counts = sample(decoder_, parameters, rule, depth, 1 + static_cast<std::uint64_t>(depth));
      EXPECT_LT(surprise(counts.of, expected), 3.5)
          << (rule == Acceptance::kRejection ? "ratio" : "coupled") << depth;
      drafted += counts.drafted, accepted += counts.accepted;
    }
  }
  const std::int64_t some = kSeeds / 4 * std::ssize(rules);
  EXPECT_GT(accepted, some) << "nothing was accepted: this proves nothing";
  EXPECT_GT(drafted, accepted + some) << "nothing was rejected: this proves nothing";
}

/// EAGLE-3 drafts two thirds of the vocabulary: the other tokens must still have the target's frequencies.
TEST_P(DistributionTest, IsExactWhicheverNetworkDrafts) {
  const Case parameters = case_of(GetParam());
  const std::vector<double> expected = exact(decoder_, parameters);
  const std::vector<Acceptance> rules =
      full_run() ? rules_of(GetParam()) : std::vector<Acceptance>{Acceptance::kRejection};
  for (const Network& network : networks_of(GetParam())) {
    ToyDecoder& decoder = network.anchor ? anchored_ : network.walks ? walking_ : decoder_;
    std::int64_t drafted = 0, accepted = 0;
    for (const Acceptance rule : rules) {
      const Counts counts = sample(decoder, parameters, rule, 3, 17, network.drafter);
      EXPECT_LT(surprise(counts.of, expected), 3.5)
          << network.text() << (rule == Acceptance::kRejection ? " ratio" : " coupled");
      drafted += counts.drafted, accepted += counts.accepted;
    }
    EXPECT_GT(accepted, kSeeds / 20 * std::ssize(rules))
        << network.text() << ": nothing was accepted, this proves nothing";
    EXPECT_GE(drafted, accepted) << network.text();
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, DistributionTest, testing::Values("plain", "penalties", "mask", "filters"),
                         [](const auto& param) { return std::string(param.param); });

TEST(DistributionProof, ARuleThatForgetsThePenaltiesOfItsBlockIsSeen) {
  ToyDecoder decoder(1, tiny(), 64);
  const Case parameters = case_of("penalties");
  const Counts counts = sample(decoder, parameters, Acceptance::kRejection, 2, 1);
  EXPECT_GT(surprise(counts.of, exact(decoder, parameters, true)), 6);
}

TEST(DistributionProof, ADrawFromASlightlyOtherDistributionIsSeen) {
  ToyDecoder decoder(1, tiny(), 64);
  const Case parameters = case_of("plain");
  Case colder = parameters;
  colder.sampler.temperature *= 0.75F;
  const Counts counts = sample(decoder, colder, Acceptance::kRejection, 2, 1);
  EXPECT_GT(surprise(counts.of, exact(decoder, parameters)), 6);
}

/// The same two faults where another network drafts, under rejection sampling.
TEST(DistributionProof, AFaultIsSeenWhicheverNetworkDrafts) {
  ToyDecoder decoder(1, tiny(), 64), walking(1, tiny(true), 64), anchored(1, tiny(true, true), 64);
  const Case plain = case_of("plain"), penalties = case_of("penalties");
  Case colder = plain;
  colder.sampler.temperature *= 0.75F;
  const std::vector<double> expected = exact(decoder, plain);
  const std::vector<double> forgetful = exact(decoder, penalties, true);
  for (const Network& network : networks_of("faults")) {
    ToyDecoder& of = network.anchor ? anchored : network.walks ? walking : decoder;
    const Counts cold = sample(of, colder, Acceptance::kRejection, 3, 17, network.drafter);
    EXPECT_GT(surprise(cold.of, expected), 6) << network.text();
    const Counts right = sample(of, penalties, Acceptance::kRejection, 3, 17, network.drafter);
    EXPECT_GT(surprise(right.of, forgetful), 6) << network.text();
  }
}

/// EAGLE-3 drafts two thirds of the vocabulary: a rule that leaves out the rest must be found.
TEST(DistributionProof, ATokenThatNeverComesIsSeen) {
  ToyDecoder decoder(1, tiny(), 64);
  const Case plain = case_of("plain");
  Case without = plain;
  without.mask = {0x7FU & ~(1U << 5)};
  const Counts counts = sample(decoder, without, Acceptance::kRejection, 3, 17, DrafterKind::kEagle3);
  EXPECT_GT(surprise(counts.of, exact(decoder, plain)), 6);
}

}  // namespace
}  // namespace ft::test::distribution_test
