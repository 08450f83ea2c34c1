#include "sampling/sample.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "sampling/distribution.h"
#include "sampling/philox.h"

namespace ft::sample_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Inputs of one row, owned.
struct Case {
  std::vector<float> logits = {};
  std::vector<std::int32_t> ids = {};
  SamplingParams sampler = {};
  std::vector<TokenCount> history = {};
  std::vector<std::int32_t> drafts = {};
  std::vector<LogitBias> bias = {};
  std::vector<std::uint32_t> mask = {};
  std::int64_t position = 0;

  SampleRow row() const {
    SampleRow out;
    out.sampler = &sampler;
    out.position = position;
    out.history = history;
    out.bias = bias;
    out.mask = mask;
    return out;
  }
  bool allows(std::int32_t token) const {
    const auto id = static_cast<std::size_t>(token);
    return mask.empty() || (id / 32 < mask.size() && (mask[id / 32] >> (id % 32) & 1) == 1);
  }
};

struct Entry {
  std::int32_t token;
  float value;
};

/// The stated rules in obvious steps: everything is sorted, and only the noise is shared with the product.
/// Returns the candidates in order of value; empty if no logit is finite.
std::vector<Entry> slow_candidates(const Case& c) {
  std::map<std::int32_t, float> values;
  for (std::size_t i = 0; i < c.logits.size(); ++i) {
    values[c.ids.empty() ? static_cast<std::int32_t>(i) : c.ids[i]] = c.logits[i];
  }
  std::map<std::int32_t, int> output;
  for (const TokenCount& seen : c.history) output[seen.token] += seen.output;
  for (const std::int32_t token : c.drafts) ++output[token];
  for (auto& [token, value] : values) {
    if (output.contains(token)) {
      value = value > 0 ? value / c.sampler.repetition : value * c.sampler.repetition;
      if (output[token] > 0) {
        value -= c.sampler.frequency * static_cast<float>(output[token]);
        value -= c.sampler.presence;
      }
    }
    for (const LogitBias& bias : c.bias) value += bias.token == token ? bias.value : 0;
    if (!c.allows(token) || std::isnan(value)) value = -kInf;
    value = std::min(value, FLT_MAX);
  }
  std::vector<Entry> kept;
  for (const auto& [token, value] : values) {
    if (value > -kInf) kept.push_back({token, value});
  }
  std::ranges::sort(kept, [](const Entry& a, const Entry& b) {
    return a.value > b.value || (a.value == b.value && a.token < b.token);
  });
  if (kept.empty() || c.sampler.temperature == 0) return kept;
  if (c.sampler.top_k > 0 && kept.size() > static_cast<std::size_t>(c.sampler.top_k)) {
    kept.resize(static_cast<std::size_t>(c.sampler.top_k));
  }
  const auto weight = [&, highest = kept[0].value](const Entry& entry) {
    return std::exp((static_cast<double>(entry.value) - static_cast<double>(highest)) /
                    static_cast<double>(c.sampler.temperature));
  };
  if (c.sampler.top_p < 1) {
    double whole = 0;
    for (const Entry& entry : kept) whole += weight(entry);
    double reached = 0;
    std::size_t count = 0;
    while (count < kept.size() && (count == 0 || reached < static_cast<double>(c.sampler.top_p) * whole)) {
      reached += weight(kept[count++]);
    }
    kept.resize(count);
  }
  std::erase_if(kept,
                [&](const Entry& entry) { return weight(entry) < static_cast<double>(c.sampler.min_p); });
  return kept;
}

std::int32_t slow_sample(const Case& c) {
  const std::vector<Entry> kept = slow_candidates(c);
  if (kept.empty()) {
    const auto token = [&](std::size_t i) { return c.ids.empty() ? static_cast<std::int32_t>(i) : c.ids[i]; };
    for (std::size_t i = 0; i < c.logits.size(); ++i) {
      if (c.allows(token(i))) return token(i);
    }
    return token(0);
  }
  if (c.sampler.temperature == 0) return kept[0].token;
  const auto score = [&](const Entry& entry) {
    return (static_cast<double>(entry.value) - static_cast<double>(kept[0].value)) /
               static_cast<double>(c.sampler.temperature) +
           gumbel(c.sampler.seed, c.position, entry.token, Stream::kTarget);
  };
  Entry best = kept[0];
  for (const Entry& entry : kept) {
    if (score(entry) > score(best) || (score(entry) == score(best) && entry.token < best.token)) best = entry;
  }
  return best.token;
}

/// Every option is on or off at random. Logits come from a coarse grid, so ties are common, mixed with odd
/// values.
Case random_case(std::mt19937& random) {
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  const auto pick = [&](auto... values) {
    const std::array options{values...};
    return options[random() % options.size()];
  };
  Case c;
  const std::size_t count = 1 + random() % (one_in(4) ? 1500 : 40);
  const float step = pick(0.5F, 0.125F, 0.01F);
  for (std::size_t i = 0; i < count; ++i) {
    const float normal = static_cast<float>(static_cast<int>(random() % 400) - 200) / 20;
    c.logits.push_back(one_in(30) ? pick(-kInf, kNan, kInf, -3e38F, 0.0F) : std::round(normal / step) * step);
  }
  if (one_in(3)) {
    std::int32_t id = static_cast<std::int32_t>(random() % 5);
    for (std::size_t i = 0; i < count; ++i) {
      c.ids.push_back(id);
      id += 1 + static_cast<std::int32_t>(random() % 3);
    }
  }
  const auto range =
      static_cast<unsigned>(c.ids.empty() ? count : static_cast<std::size_t>(c.ids.back()) + 1) + 5;
  c.sampler = {.temperature = pick(0.0F, 0.3F, 1.0F, 1.0F, 7.0F),
               .top_k = pick(0, 0, 1, 5, 20, 600),
               .top_p = pick(1.0F, 1.0F, 0.9F, 0.5F, 0.01F, 0.999F),
               .min_p = pick(0.0F, 0.0F, 0.05F, 0.4F, 1.0F),
               .repetition = pick(1.0F, 1.3F, 0.7F),
               .presence = pick(0.0F, 0.5F, -1.0F),
               .frequency = pick(0.0F, 0.25F),
               .seed = random()};
  c.position = static_cast<std::int64_t>(random());
  for (std::int32_t token = 0; one_in(2) && token < static_cast<std::int32_t>(range); ++token) {
    if (one_in(3)) c.history.push_back({token, static_cast<std::int32_t>(random() % 3)});
    if (one_in(6)) c.bias.push_back({token, pick(2.0F, -3.0F, 100.0F, -kInf)});
  }
  for (unsigned i = random() % 4; i > 0; --i) c.drafts.push_back(static_cast<std::int32_t>(random() % range));
  if (one_in(3)) {
    for (unsigned i = 0; i < range / 32 + (one_in(2) ? 1 : 0); ++i)
      c.mask.push_back(pick(0U, ~0U, static_cast<std::uint32_t>(random())));
  }
  return c;
}

TEST(Sample, AgreesWithTheObviousRulesOnRandomRows) {
  std::mt19937 random(20);
  SampleScratch scratch;
  for (int i = 0; i < 30'000; ++i) {
    const Case c = random_case(random);
    ASSERT_EQ(ft::sample(c.logits, c.ids, c.row(), scratch, c.drafts), slow_sample(c)) << "case " << i;
  }
}

TEST(Distribution, AgreesWithTheObviousRulesOnRandomRows) {
  std::mt19937 random(21);
  SampleScratch scratch;
  Distribution out;
  for (int i = 0; i < 10'000; ++i) {
    const Case c = random_case(random);
    distribution(c.logits, c.ids, c.row(), scratch, out, c.drafts);
    const std::vector<Entry> kept = slow_candidates(c);
    if (kept.empty() || c.sampler.temperature == 0) {
      ASSERT_EQ(out.entries.size(), 1U);
      ASSERT_EQ(out.entries[0], (std::pair{slow_sample(c), 1.0F})) << "case " << i;
      continue;
    }
    double whole = 0;
    double listed = 0;
    const auto weight = [&](float value) {
      return std::exp((static_cast<double>(value) - static_cast<double>(kept[0].value)) /
                      static_cast<double>(c.sampler.temperature));
    };
    for (const Entry& entry : kept) whole += weight(entry.value);
    for (const Entry& entry : kept) {
      ASSERT_NEAR(out.probability(entry.token), weight(entry.value) / whole, 1e-7) << "case " << i;
    }
    for (const auto& entry : out.entries) listed += static_cast<double>(entry.second);
    ASSERT_NEAR(listed, 1, 1e-5);
    ASSERT_LE(out.entries.size(), kept.size());
    ASSERT_TRUE(std::ranges::is_sorted(out.entries));
  }
}

TEST(Sample, PassingOverNoiseNeverChangesTheTokenOfALargeVocabulary) {
  std::mt19937 random(22);
  std::normal_distribution<float> normal(0, 3);
  Case c;
  for (int i = 0; i < 248'000; ++i) c.logits.push_back(normal(random));
  SampleScratch scratch;
  scratch.reserve(c.logits.size());
  for (const float temperature : {0.2F, 1.0F, 3.0F, 100.0F}) {
    c.sampler.temperature = temperature;
    c.position += 7;
    c.sampler.top_p = 1;
    EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), slow_sample(c)) << temperature;
    c.sampler.top_p = 0.95F;
    EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), slow_sample(c)) << temperature;
  }
  EXPECT_LE(scratch.candidates.capacity(), c.logits.size());  // the reserved size was enough
}

TEST(Sample, TakesItsStepsInTheStatedOrder) {
  SampleScratch scratch;
  const auto greedy = [&](const Case& c) { return ft::sample(c.logits, c.ids, c.row(), scratch, c.drafts); };
  // Repetition first: 4 / 2 - 1 = 1 loses to 1.2; the other way round (4 - 1) / 2 = 1.5 would win.
  Case c{.logits = {4, 1.2F}, .sampler = {.repetition = 2, .presence = 1}, .history = {{0, 1}}};
  EXPECT_EQ(greedy(c), 1);
  // Bias after penalties: 4 / 2 + 2 = 4 beats 3.5; before them (4 + 2) / 2 = 3 would lose.
  c = {.logits = {4, 3.5F}, .sampler = {.repetition = 2}, .history = {{0, 0}}, .bias = {{0, 2}}};
  EXPECT_EQ(greedy(c), 0);
  // The mask after the bias: no bias brings a token back.
  c = {.logits = {4, 3}, .bias = {{0, 100}}, .mask = {2}};
  EXPECT_EQ(greedy(c), 1);
  // The mask before top-k: a masked token takes no place.
  c = {.logits = {4, 3, 2}, .sampler = {.temperature = 1, .top_k = 1}, .mask = {6}};
  EXPECT_EQ(greedy(c), 1);
}

TEST(Distribution, FiltersTakeTheirMassAfterTheOnesBefore) {
  SampleScratch scratch;
  Distribution out;
  const auto kept = [&](const SamplingParams& sampler) {
    const std::array logits{std::log(0.4F), std::log(0.3F), std::log(0.2F), std::log(0.1F)};
    SampleRow row;
    row.sampler = &sampler;
    distribution(logits, {}, row, scratch, out);
    return out.entries.size();
  };
  // Of 0.4 0.3 0.2 0.1: 0.5 needs two tokens; after top-k 2 the first alone has 0.57.
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.5F}), 2U);
  EXPECT_EQ(kept({.temperature = 1, .top_k = 2, .top_p = 0.5F}), 1U);
  // Temperature first: at 0.5 the first has 0.53.
  EXPECT_EQ(kept({.temperature = 0.5F, .top_p = 0.5F}), 1U);
  // min-p is measured against the highest: 0.2 / 0.4 stays at 0.49, goes at 0.51; also after top-p.
  EXPECT_EQ(kept({.temperature = 1, .min_p = 0.49F}), 3U);
  EXPECT_EQ(kept({.temperature = 1, .min_p = 0.51F}), 2U);
  EXPECT_EQ(kept({.temperature = 1, .top_p = 0.95F, .min_p = 0.3F}), 3U);
}

TEST(Sample, SeesDraftsAsIfTheyHadBeenEmitted) {
  std::mt19937 random(23);
  SampleScratch scratch;
  for (int i = 0; i < 2000; ++i) {
    Case drafted = random_case(random);
    Case emitted = drafted;
    for (const std::int32_t token : drafted.drafts) {
      const auto at = std::ranges::lower_bound(emitted.history, token, {}, &TokenCount::token);
      if (at != emitted.history.end() && at->token == token) {
        ++at->output;
      } else {
        emitted.history.insert(at, {token, 1});
      }
    }
    emitted.drafts.clear();
    ASSERT_EQ(ft::sample(drafted.logits, drafted.ids, drafted.row(), scratch, drafted.drafts),
              ft::sample(emitted.logits, emitted.ids, emitted.row(), scratch, emitted.drafts));
  }
}

TEST(Sample, TiesGoToTheLowestIdAndTopKKeepsExactlyK) {
  SampleScratch scratch;
  Case c{.logits = std::vector<float>(3000, 1.0F)};
  EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), 0);
  c.logits[5] = c.logits[2999] = 2;
  EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), 5);
  c.sampler = {.temperature = 1, .top_k = 4};
  Distribution out;
  distribution(c.logits, {}, c.row(), scratch, out, c.drafts);
  std::vector<std::int32_t> kept;
  for (const auto& entry : out.entries) kept.push_back(entry.first);
  EXPECT_EQ(kept, (std::vector<std::int32_t>{0, 1, 5, 2999}));
}

TEST(Sample, NoiseBelongsToTheTokenNotToItsPlace) {
  std::mt19937 random(24);
  SampleScratch scratch;
  for (int i = 0; i < 2000; ++i) {
    Case full;
    Case part;
    full.mask.assign(2, 0);
    full.sampler = part.sampler = {.temperature = 1.5F, .top_k = i % 2 == 0 ? 0 : 7, .seed = random()};
    for (std::int32_t token = 0; token < 64; ++token) {
      full.logits.push_back(static_cast<float>(random() % 100) / 20);
      if (random() % 3 == 0) continue;
      full.mask[static_cast<std::size_t>(token / 32)] |= 1U << (token % 32);
      part.ids.push_back(token);
      part.logits.push_back(full.logits.back());
    }
    ASSERT_EQ(ft::sample(full.logits, {}, full.row(), scratch, full.drafts),
              ft::sample(part.logits, part.ids, part.row(), scratch, part.drafts));
  }
}

TEST(Sample, RowsWithoutAFiniteLogitTakeTheLowestAllowedId) {
  SampleScratch scratch;
  for (const float temperature : {0.0F, 1.0F}) {
    for (const int top_k : {0, 2}) {
      Case c{.logits = {kNan, -kInf, kNan, -kInf}, .sampler = {.temperature = temperature, .top_k = top_k}};
      EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), 0);
      c.mask = {12};
      EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), 2);
      c.mask = {0};
      EXPECT_EQ(ft::sample(c.logits, {}, c.row(), scratch, c.drafts), 0);
      c.ids = {3, 9, 31, 32};
      EXPECT_EQ(ft::sample(c.logits, c.ids, c.row(), scratch, c.drafts), 3);
    }
  }
}

}  // namespace
}  // namespace ft::sample_test
