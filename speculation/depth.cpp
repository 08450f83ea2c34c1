#include "speculation/depth.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ft {

namespace {

constexpr double kEnough = 8;  // weight from which two means can tell a change
constexpr double kApart = 0.32;

}  // namespace

void AcceptanceEstimate::observe(int drafted, int accepted) {
  constexpr double kSlow = 28;      // observations that the slow mean remembers
  constexpr double kFast = 8;       // and the fast one
  constexpr double kUnseen = 0.96;  // weight that a position keeps for a round that did not reach it
  for (int i = 0; i < kMaxDraft; ++i) {
    Position& at = positions_[static_cast<std::size_t>(i)];
    if (i < std::min(drafted, accepted + 1)) {
      const double right = i < accepted ? 1 : 0;
      at.weight = std::min(at.weight + 1, kSlow);
      at.slow += (right - at.slow) / at.weight;
      at.fast += (right - at.fast) / std::min(at.weight, kFast);
    } else if (drafted > 0) {
      at.weight *= kUnseen;
    }
  }
  seen_ += drafted > 0 ? 1 : 0;
}

void AcceptanceEstimate::age() {
  constexpr double kKept = 0.99;
  constexpr double kLeast = 4;
  for (Position& at : positions_) at.weight = std::max(std::min(at.weight, kLeast), at.weight * kKept);
}

bool AcceptanceEstimate::changed() const {
  const Position& at = positions_[0];
  return at.weight > kEnough && std::abs(at.fast - at.slow) > kApart;
}

void AcceptanceEstimate::doubt() {
  constexpr double kLeft = 1.5;
  for (Position& at : positions_) at.weight = std::min(at.weight, kLeft);
}

std::array<double, kMaxDraft> AcceptanceEstimate::rates(double trust) const {
  std::array<double, kMaxDraft> rates{};
  double before = prior_;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const Position& at = positions_[i];
    double rate = (trust * before + at.weight * at.slow) / (trust + at.weight);
    if (at.weight > kEnough && std::abs(at.fast - at.slow) > kApart) rate = at.fast;
    before = rates[i] = rate;
  }
  return rates;
}

DepthPolicy::DepthPolicy(int depth, const AcceptancePrior& prior) : fixed_(depth), budget_(prior.budget) {
  for (std::size_t i = 0; i < estimates_.size(); ++i) {
    for (std::size_t kind = 0; kind < estimates_[i].size(); ++kind)
      estimates_[i][kind] = AcceptanceEstimate(prior.first[i][kind]);
  }
}

int DepthPolicy::choose_none() {
  reason_ = {};
  return 0;
}

/// Where one more draft costs much of a plain step, the prior counts for less, so that a wrong one is
/// believed sooner.
std::array<double, kMaxDraft> DepthPolicy::rates(const CostModel& costs, const Offer& offer,
                                                 const RoundSoFar& others) const {
  constexpr double kDear = 0.25;  // plain steps
  ContextRead more = others.read;
  more.drafts += others.context;
  const double plain = costs.round(others.rows + 1, 0, others.slots, others.read);
  const double drafted =
      costs.round(others.rows + 2, costs.draft_steps(*offer.drafter, 1), others.slots, more);
  const double extra = std::max(drafted / plain - 1, 1e-6);
  const double trust = AcceptanceEstimate::kTrust * std::clamp(kDear / extra, 0.3, 1.0);
  return estimate(*offer.drafter, offer.kind).rates(trust);
}

/// The round with `depth` drafts of the offer, of which this slot is expected to emit `own_tokens` tokens.
DepthPolicy::Best DepthPolicy::at_depth(const CostModel& costs, const Offer& offer, int depth,
                                        double own_tokens, const RoundSoFar& others) {
  const double own = others.steps_of[static_cast<std::size_t>(offer.drafter->number())];
  double drafting = others.draft_steps;
  if (depth > 0) drafting += std::max(0.0, costs.draft_steps(*offer.drafter, depth) - own) + offer.catch_up;
  ContextRead read = others.read;
  read.drafts += depth * others.context;
  return {depth, costs.round(others.rows + 1 + depth, drafting, others.slots, read),
          others.tokens + own_tokens, own_tokens};
}

DepthPolicy::Best DepthPolicy::best_depth(const CostModel& costs, const Offer& offer, int most,
                                          const RoundSoFar& others) const {
  constexpr double kBatchMargin = 1.1;  // many slots choose by one estimate: its errors add up
  const double margin = others.slots > 1 ? kBatchMargin : 1;
  const std::array<double, kMaxDraft> right = rates(costs, offer, others);
  double chain = 1;
  double tokens = 1;
  Best best = at_depth(costs, offer, 0, 1, others);
  for (int depth = 1; depth <= most; ++depth) {
    chain *= right[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const Best deeper = at_depth(costs, offer, depth, tokens, others);
    if (deeper.tokens - best.tokens > (deeper.steps - best.steps) * margin * best.pace()) best = deeper;
  }
  return best;
}

int DepthPolicy::choose_fixed(std::span<const Offer> offers, int allowed) {
  // The first offer is the one that the text itself speaks for.
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const int most = std::min({offers[i].most, allowed, kMaxDraft});
    if (most <= 0) continue;
    reason_.offer = i, reason_.most = most, reason_.drafter = offers[i].drafter->name();
    return reason_.best.depth = std::min(fixed_, most);
  }
  return 0;
}

int DepthPolicy::choose(const CostModel& costs, std::span<const Offer> offers, int allowed,
                        const RoundSoFar& others) {
  reason_ = {};
  ++round_;
  if (fixed_ >= 0) return choose_fixed(offers, allowed);
  std::array<Best, kMaxDrafters> bests;
  const std::size_t count = std::min(offers.size(), bests.size());
  std::size_t first = count;
  for (std::size_t i = 0; i < count; ++i) {
    const int most = std::min({offers[i].most, allowed, kMaxDraft});
    bests[i].tokens = 0;  // it offers nothing
    if (most <= 0) continue;
    bests[i] = best_depth(costs, offers[i], most, others);
    reason_.paces[i] = bests[i].pace(), reason_.names[i] = offers[i].drafter->name();
    if (first == count || bests[i].pace() > bests[first].pace()) first = i;
  }
  reason_.offers = count;
  if (first == count) return 0;
  const auto take = [&](std::size_t i) {
    reason_.offer = i, reason_.best = bests[i];
    reason_.most = std::min({offers[i].most, allowed, kMaxDraft});
    reason_.drafter = offers[i].drafter->name(), reason_.free = offers[i].drafter->draft_cost(1) == 0;
    reason_.rates = rates(costs, offers[i], others);
  };
  take(first);
  budget_ = std::min(kMostBudget, budget_ + kExplore * bests[first].steps / others.slots);
  if (count > 1 && explore(offers.first(count), std::span(bests).first(count), costs, others)) {
    take(reason_.offer);
    reason_.exploring = true;
  }
  if (reason_.best.depth > 0) {
    idle_ = 0;
    next_probe_ = kFirstProbe;
    if (!reason_.exploring) try_again(costs, offers[first], reason_.most, others);
    last_draft_[static_cast<std::size_t>(offers[reason_.offer].drafter->number())] = round_;
    return reason_.best.depth;
  }
  return probe(offers.first(count));
}

/// What is never tried is never learnt: a drafter that has not drafted for long may do so once, if what that
/// is expected to lose fits into the budget. True: reason_.offer is that drafter.
bool DepthPolicy::explore(std::span<const Offer> offers, std::span<Best> bests, const CostModel& costs,
                          const RoundSoFar& others) {
  const std::size_t best = reason_.offer;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const auto number = static_cast<std::size_t>(offers[i].drafter->number());
    if (i == best || bests[i].tokens <= 0 || round_ - last_draft_[number] < kStale) continue;
    Best tried = bests[i];
    if (tried.depth == 0)
      tried = at_depth(costs, offers[i], 1, 1 + rates(costs, offers[i], others)[0], others);
    const double loss = std::max(0.0, tried.steps - tried.tokens / bests[best].pace()) / others.slots;
    if (loss > budget_) continue;
    budget_ -= loss;
    bests[i] = tried;
    reason_.offer = i;
    return true;
  }
  return false;
}

/// Costs that were taken at a bad moment would keep a depth away that acceptance speaks for: now and then a
/// round goes as deep as it would at half the extra cost, and so measures it again.
bool DepthPolicy::try_again(const CostModel& costs, const Offer& offer, int most, const RoundSoFar& others) {
  if (++shallow_ < kRetry) return false;
  shallow_ = 0;
  const Best plain = at_depth(costs, offer, 0, 1, others);
  double chain = 1, tokens = 1;
  int deeper = 0;
  double pace = reason_.best.pace(), expected = 1;
  for (int depth = 1; depth <= most; ++depth) {
    chain *= reason_.rates[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const Best there = at_depth(costs, offer, depth, tokens, others);
    const double hoped = there.tokens / (plain.steps + 0.5 * (there.steps - plain.steps));
    if (hoped > pace) pace = hoped, deeper = depth, expected = tokens;
  }
  if (deeper <= reason_.best.depth) return false;
  reason_.best.depth = deeper;
  reason_.best.expected = expected;
  return true;
}

/// No depth of any offer pays: the most hopeful one is tried now and then, less often each time.
int DepthPolicy::probe(std::span<const Offer> offers) {
  std::size_t hopeful = reason_.offer;
  double most = -1;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].most <= 0) continue;
    AcceptanceEstimate& known = estimate(*offers[i].drafter, offers[i].kind);
    known.age();
    if (known.rates()[0] > most) most = known.rates()[0], hopeful = i;
  }
  if (++idle_ < next_probe_) return 0;
  idle_ = 0;
  next_probe_ = std::min(2 * next_probe_, kLastProbe);
  reason_.offer = hopeful;
  reason_.probe = true;
  reason_.drafter = offers[hopeful].drafter->name();
  return reason_.best.depth = 1;
}

void DepthPolicy::observe(int drafted, int accepted, const Drafter& drafter, int kind) {
  AcceptanceEstimate& known = estimate(drafter, kind);
  const bool before = known.changed();
  known.observe(drafted, accepted);
  if (!before && known.changed()) {  // what others did on the text before says little about this one
    for (Kinds& kinds : estimates_) {
      for (AcceptanceEstimate& other : kinds) {
        if (&other != &known) other.doubt();
      }
    }
  }
  // A probe that was right is followed by another at once.
  if (reason_.probe && drafted > 0 && accepted == drafted) idle_ = next_probe_ - 1;
}

void DepthPolicy::teach(AcceptancePrior& prior) const {
  if (fixed_ >= 0) return;
  constexpr double kShare = 0.25;
  constexpr double kWhole = 8;     // drafts that speak for a whole request
  constexpr double kLeast = 0.15;  // so that a new text is not refused for what others were
  for (std::size_t i = 0; i < estimates_.size(); ++i) {
    for (std::size_t kind = 0; kind < estimates_[i].size(); ++kind) {
      const AcceptanceEstimate& known = estimates_[i][kind];
      const double share = kShare * std::min(1.0, known.seen() / kWhole);
      double& first = prior.first[i][kind];
      first = std::max(kLeast, (1 - share) * first + share * known.rates()[0]);
    }
  }
  prior.budget = budget_;
}

std::string DepthPolicy::explain() const {
  const int depth = reason_.best.depth;
  if (reason_.most <= 0) return "depth 0: nothing to draft or no room for it";
  if (fixed_ >= 0) return fmt::format("depth {}: as asked", depth);
  std::string rates;
  for (int i = 0; i < std::min(reason_.most, std::max(depth, 2) + 1); ++i)
    rates += fmt::format(" {:.2f}", reason_.rates[static_cast<std::size_t>(i)]);
  const std::string source = fmt::format("{}, {}", reason_.drafter, reason_.free ? "free drafts" : "drafts");
  std::string others;
  for (std::size_t i = 0; i < reason_.offers; ++i) {
    if (i != reason_.offer && reason_.paces[i] > 0)
      others += fmt::format("{} {} {:.2f}", others.empty() ? "; others, tokens a step:" : ",",
                            reason_.names[i], reason_.paces[i]);
  }
  if (reason_.probe) return fmt::format("depth 1: a probe of {} right{}", source, rates);
  if (depth == 0) return fmt::format("depth 0: {} right{}, no depth pays{}", source, rates, others);
  return fmt::format("depth {}: {}{} right{}; {:.2f} tokens expected for {:.2f} plain steps{}", depth,
                     reason_.exploring ? "exploring " : "", source, rates, reason_.best.tokens,
                     reason_.best.steps, others);
}

}  // namespace ft
