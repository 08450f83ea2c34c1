// Does speculation leave the distribution unchanged? A toy target over five tokens, p(. | last two tokens), a
// different toy drafter, penalties and masks: four tokens are generated many times and compared with the
// exact joint distribution by chi-square. Seeds are fixed. Rules that are wrong on purpose must fail the same
// test.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "sampling/distribution.h"
#include "sampling/history.h"
#include "sampling/philox.h"
#include "sampling/rejection.h"
#include "sampling/sample.h"

namespace ft::exactness_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr int kVocabulary = 5;
constexpr std::size_t kLength = 4;
constexpr int kSequences = 30'000;
const Tokens kPrompt = {3, 1};

/// Chi-square over its critical value at 1 in 10,000 (Wilson and Hilferty 1931); above 1 is a rejection.
double excess(const std::map<Tokens, int>& seen, const std::map<Tokens, double>& exact, int total) {
  double chi2 = 0;
  double pooled_expected = 0;
  double pooled_seen = 0;
  int cells = 0;
  const auto add = [&](double expected, double count) {
    chi2 += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  int known = 0;
  for (const auto& [tokens, probability] : exact) {
    const auto found = seen.find(tokens);
    const double count = found == seen.end() ? 0 : found->second;
    known += static_cast<int>(count);
    if (probability * total >= 5) {
      add(probability * total, count);
    } else {
      pooled_expected += probability * total;
      pooled_seen += count;
    }
  }
  if (pooled_expected > 0) add(std::max(pooled_expected, 1.0), pooled_seen);
  if (known != total) return 1e9;  // something impossible came out
  const double df = std::max(1, cells - 1);
  const double root = 1 - 2 / (9 * df) + 3.719 * std::sqrt(2 / (9 * df));
  return chi2 / (df * root * root * root);
}

struct Setting {
  const char* name;
  SamplingParams sampler;
  bool masked;
  float drafter_agrees;  // 0: unrelated to the target, 1: the same logits
};

const std::array<Setting, 4> kSettings = {{
    {"plain", {.temperature = 1}, false, 0.5F},
    {"penalised",
     {.temperature = 0.8F, .repetition = 1.4F, .presence = 0.5F, .frequency = 0.4F},
     false,
     0.6F},
    {"masked", {.temperature = 1.3F, .min_p = 0.02F, .repetition = 0.8F, .frequency = 0.5F}, true, 0.3F},
    {"filtered", {.temperature = 1.2F, .top_k = 4, .top_p = 0.9F, .presence = 0.3F}, true, 0.5F},
}};

/// One row of the toy: the logits depend on the last two tokens, the mask on the last.
class Toy {
 public:
  explicit Toy(const Setting& setting) : setting_(setting) {
    const double agrees = static_cast<double>(setting.drafter_agrees);
    for (std::int32_t cell = 0; cell < kContexts * kVocabulary; ++cell) {
      const double own = 4 * uniform(99, 0, cell, Stream::kTarget) - 1;
      const double other = 4 * uniform(77, 0, cell, Stream::kTarget) - 1;
      const auto at = static_cast<std::size_t>(cell);
      target_[at] = static_cast<float>(own);
      drafter_[at] = static_cast<float>(agrees * own + (1 - agrees) * other);
    }
  }

  /// A row and its past. `seen`: prompt and output. `drafts`: the drafts before the row in this step.
  struct Row {
    std::array<float, kVocabulary> logits;
    std::array<std::uint32_t, 1> mask;
    History history;
    SamplingParams sampler;
    SampleRow row;
    std::span<const std::int32_t> drafts;  // that count as emitted before it
  };

  void fill(Row& out, bool drafter, const Tokens& output, const Tokens& drafts, std::uint64_t seed,
            bool drafts_are_history = true) const {
    Tokens all = kPrompt;
    all.insert(all.end(), output.begin(), output.end());
    all.insert(all.end(), drafts.begin(), drafts.end());
    const std::int32_t last = all.back();
    const std::int32_t context = all[all.size() - 2] * kVocabulary + last;
    std::copy_n((drafter ? drafter_ : target_).begin() + context * kVocabulary, kVocabulary,
                out.logits.begin());
    out.mask = {31U & ~(1U << (static_cast<std::uint32_t>(last + 2) % kVocabulary))};
    out.history.clear();
    out.history.add_prompt(kPrompt);
    for (const std::int32_t token : output) out.history.add_output(token);
    out.sampler = setting_.sampler;
    out.sampler.seed = seed;
    out.row = {};
    out.row.sampler = &out.sampler;
    out.row.position = static_cast<std::int64_t>(all.size());
    out.row.history = out.history.counts();
    out.drafts = drafts_are_history ? std::span<const std::int32_t>(drafts) : std::span<const std::int32_t>();
    if (setting_.masked) out.row.mask = out.mask;
  }

  std::map<Tokens, double> exact() const {
    std::map<Tokens, double> joint;
    Row row;
    SampleScratch scratch;
    const std::function<void(const Tokens&, double)> extend = [&](const Tokens& output, double probability) {
      if (output.size() == kLength) {
        joint[output] = probability;
        return;
      }
      Distribution next;
      fill(row, false, output, {}, 0);
      distribution(row.logits, {}, row.row, scratch, next, row.drafts);
      for (const auto& [token, share] : next.entries) {
        Tokens longer = output;
        longer.push_back(token);
        extend(longer, probability * static_cast<double>(share));
      }
    };
    extend({}, 1);
    return joint;
  }

 private:
  static constexpr int kContexts = kVocabulary * kVocabulary;
  Setting setting_;
  std::array<float, kContexts * kVocabulary> target_;   // [last but one, last, token]
  std::array<float, kContexts * kVocabulary> drafter_;  // [last but one, last, token]
};

enum class Wrong { kNothing, kSharedNoise, kNoSubtraction, kUnchecked, kDraftsForgotten };

std::uint64_t seed_of(int sequence) {
  return static_cast<std::uint64_t>(sequence) * 0x9E3779B97F4A7C15ULL + 1;
}

Tokens plain(const Toy& toy, std::uint64_t seed) {
  Toy::Row row;
  SampleScratch scratch;
  Tokens output;
  while (output.size() < kLength) {
    toy.fill(row, false, output, {}, seed);
    output.push_back(ft::sample(row.logits, {}, row.row, scratch, row.drafts));
  }
  return output;
}

Tokens coupled(const Toy& toy, std::uint64_t seed, std::size_t depth, Wrong wrong) {
  Toy::Row row;
  SampleScratch scratch;
  Tokens output;
  while (output.size() < kLength) {
    Tokens drafts;
    while (drafts.size() < depth) {
      toy.fill(row, true, output, drafts, seed);
      drafts.push_back(ft::sample(row.logits, {}, row.row, scratch, row.drafts));
    }
    Tokens emitted;
    for (std::size_t i = 0; i <= depth; ++i) {
      const Tokens before(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(i));
      toy.fill(row, false, output, before, seed, wrong != Wrong::kDraftsForgotten);
      const std::int32_t token = ft::sample(row.logits, {}, row.row, scratch, row.drafts);
      const bool unchecked = wrong == Wrong::kUnchecked && i == 0 && depth > 0;
      emitted.push_back(unchecked ? drafts[i] : token);
      if (i == depth || emitted[i] != drafts[i]) break;
    }
    output.insert(output.end(), emitted.begin(), emitted.end());
  }
  output.resize(kLength);
  return output;
}

RejectionOutcome wrong_ratio(const Distribution& p, const Distribution& q, std::int32_t draft,
                             std::uint64_t seed, std::int64_t position, Wrong wrong) {
  if (wrong == Wrong::kSharedNoise) {
    const double u = uniform(seed, position, 0, Stream::kDraft);  // this same number drew the draft
    if (u * static_cast<double>(q.probability(draft)) < static_cast<double>(p.probability(draft))) {
      return {true, draft};
    }
    const RejectionOutcome right = rejection_sample(p, q, draft, seed, position);
    return right.accepted ? RejectionOutcome{false, draw(p, seed, position, Stream::kResidual)} : right;
  }
  const RejectionOutcome right = rejection_sample(p, q, draft, seed, position);
  if (wrong != Wrong::kNoSubtraction || right.accepted) return right;
  return {false, draw(p, seed, position, Stream::kResidual)};
}

Tokens by_rejection(const Toy& toy, std::uint64_t seed, std::size_t depth, Wrong wrong) {
  Toy::Row row;
  SampleScratch scratch;
  Tokens output;
  while (output.size() < kLength) {
    Tokens drafts;
    std::vector<Distribution> q(depth);
    while (drafts.size() < depth) {
      toy.fill(row, true, output, drafts, seed);
      Distribution& own = q[drafts.size()];
      distribution(row.logits, {}, row.row, scratch, own, row.drafts);
      drafts.push_back(draw(own, seed, row.row.position, Stream::kDraft));
    }
    Tokens emitted;
    for (std::size_t i = 0; i <= depth; ++i) {
      const Tokens before(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(i));
      toy.fill(row, false, output, before, seed, wrong != Wrong::kDraftsForgotten);
      Distribution p;
      distribution(row.logits, {}, row.row, scratch, p, row.drafts);
      if (i == depth) {
        emitted.push_back(draw(p, seed, row.row.position, Stream::kTarget));
        break;
      }
      const RejectionOutcome outcome = wrong_ratio(p, q[i], drafts[i], seed, row.row.position, wrong);
      emitted.push_back(outcome.token);
      if (!outcome.accepted) break;
    }
    output.insert(output.end(), emitted.begin(), emitted.end());
  }
  output.resize(kLength);
  return output;
}

using Process = Tokens (*)(const Toy&, std::uint64_t, std::size_t, Wrong);

double excess_of(const Setting& setting, Process process, std::size_t depth, Wrong wrong) {
  const Toy toy(setting);
  std::map<Tokens, int> seen;
  for (int i = 0; i < kSequences; ++i) ++seen[process(toy, seed_of(i), depth, wrong)];
  return excess(seen, toy.exact(), kSequences);
}

TEST(Exactness, PlainDrawsFollowTheDistribution) {
  for (const Setting& setting : kSettings) {
    EXPECT_LT(excess_of(setting, coupled, 0, Wrong::kNothing), 1) << setting.name;
    EXPECT_LT(excess_of(setting, by_rejection, 0, Wrong::kNothing), 1) << setting.name;
  }
}

TEST(Exactness, CoupledRuleEmitsThePlainTokensAtAnyDepth) {
  for (const Setting& setting : kSettings) {
    const Toy toy(setting);
    for (int i = 0; i < 3000; ++i) {
      const Tokens expected = plain(toy, seed_of(i));
      for (std::size_t depth = 1; depth <= 4; ++depth) {
        ASSERT_EQ(coupled(toy, seed_of(i), depth, Wrong::kNothing), expected) << setting.name << " " << depth;
      }
    }
  }
}

TEST(Exactness, CoupledRuleKeepsTheJointDistribution) {
  for (std::size_t depth = 1; depth <= 4; ++depth) {
    const Setting& setting = kSettings[depth - 1];
    EXPECT_LT(excess_of(setting, coupled, depth, Wrong::kNothing), 1) << setting.name << " " << depth;
  }
}

TEST(Exactness, RatioRuleKeepsTheJointDistribution) {
  for (std::size_t depth = 1; depth <= 4; ++depth) {
    for (const Setting& setting : kSettings) {
      EXPECT_LT(excess_of(setting, by_rejection, depth, Wrong::kNothing), 1) << setting.name << " " << depth;
    }
  }
}

TEST(Exactness, WrongRulesAreRejectedByTheSameMeasure) {
  const Setting& setting = kSettings[1];
  EXPECT_GT(excess_of(setting, by_rejection, 2, Wrong::kSharedNoise), 1);
  EXPECT_GT(excess_of(setting, by_rejection, 2, Wrong::kNoSubtraction), 1);
  EXPECT_GT(excess_of(setting, by_rejection, 2, Wrong::kDraftsForgotten), 1);
  EXPECT_GT(excess_of(setting, coupled, 2, Wrong::kUnchecked), 1);
  EXPECT_GT(excess_of(setting, coupled, 2, Wrong::kDraftsForgotten), 1);
}

TEST(Ratio, SameDistributionAlwaysAccepts) {
  const Distribution p{{{1, 0.25F}, {4, 0.75F}}};
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(rejection_sample(p, p, i % 2 == 0 ? 1 : 4, 5, i).accepted);
}

TEST(Ratio, DisjointDistributionsReplaceByTheTarget) {
  const Distribution p{{{1, 1.0F}}};
  const Distribution q{{{0, 1.0F}}};
  const RejectionOutcome outcome = rejection_sample(p, q, 0, 5, 6);
  EXPECT_FALSE(outcome.accepted);
  EXPECT_EQ(outcome.token, 1);
}

TEST(Ratio, WithoutAResidualDrawsFromTheTarget) {
  // Rounding can leave p never above q. The draft 9 has no probability under p, so it is refused.
  const Distribution p{{{1, 0.5F}, {2, 0.5F}}};
  const Distribution q{{{1, 0.5F}, {2, 0.5F}, {9, 1e-8F}}};
  int ones = 0;
  for (int i = 0; i < 1000; ++i) {
    const RejectionOutcome outcome = rejection_sample(p, q, 9, 5, i);
    EXPECT_FALSE(outcome.accepted);
    ASSERT_TRUE(outcome.token == 1 || outcome.token == 2);
    ones += outcome.token == 1 ? 1 : 0;
  }
  EXPECT_NEAR(ones, 500, 80);  // five standard deviations
}

}  // namespace
}  // namespace ft::exactness_test
