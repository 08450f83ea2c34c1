#include "speculation/depth.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace ft {

DepthPolicy::DepthPolicy(int depth, const AcceptancePrior& prior)
    : fixed_(depth),
      shallow_(prior.shallow),
      exploration_budget_(prior.exploration_budget),
      allowance_(prior.wrong_draft_allowance) {
  for (std::size_t i = 0; i < estimates_.size(); ++i) {
    for (std::size_t context_class = 0; context_class < estimates_[i].size(); ++context_class)
      estimates_[i][context_class] = AcceptanceEstimate(prior.rates[i][context_class]);
  }
}

/// The depth of the batch's plan. A slot that weighs only its own drafts may drop them because the round's
/// last rows cost most, and then all slots drop theirs.
DepthPolicy::Best DepthPolicy::planned_depth(const CostModel& costs, const Offer& offer, int max_depth,
                                             const RoundSoFar& others) const {
  const AcceptanceEstimate::Rates right = rates(offer);
  const int depth = std::min(others.depth, max_depth);
  double chain = 1, tokens = 1;
  for (int i = 0; i < depth; ++i) tokens += chain *= right[static_cast<std::size_t>(i)];
  return at_depth(costs, offer, depth, tokens, others);
}

int DepthPolicy::choose_none() {
  reason_ = {};
  return 0;
}

/// The round with `depth` drafts of the offer; this slot is expected to emit `own_tokens` tokens in it.
DepthPolicy::Best DepthPolicy::at_depth(const CostModel& costs, const Offer& offer, int depth,
                                        double own_tokens, const RoundSoFar& others) {
  const double own = others.steps_of[static_cast<std::size_t>(offer.drafter->number())];
  double drafting = others.draft_steps;
  if (depth > 0) drafting += std::max(0.0, costs.draft_steps(*offer.drafter, depth) - own) + offer.catch_up;
  ContextRead read = others.read;
  read.drafts += depth * others.context;
  Best best;
  best.depth = depth;
  best.steps = costs.round(others.rows + 1 + depth, drafting, others.slots, read);
  best.tokens = others.tokens + own_tokens, best.expected = own_tokens;
  const double plain =
      depth == 0 ? best.steps : costs.round(others.rows + 1, others.draft_steps, others.slots, others.read);
  best.extra = best.steps - plain;
  best.saves = plain / (others.tokens + 1);
  return best;
}

/// The depth with the most expected tokens for its time that costs no more extra time than `allowance`. A
/// drafter that has shown nothing yet leaves some of it, so that one wrong draft does not end drafting.
DepthPolicy::Best DepthPolicy::best_depth(const CostModel& costs, const Offer& offer, int max_depth,
                                          const RoundSoFar& others, const AcceptanceEstimate::Rates& right,
                                          double allowance) const {
  double chain = 1;
  double tokens = 1;
  Best best = at_depth(costs, offer, 0, 1, others);
  constexpr double kFirstPart = 0.6;
  const bool known = estimate(*offer.drafter, offer.context_class).seen(0) > 0;
  for (int depth = 1; depth <= max_depth; ++depth) {
    chain *= right[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const Best deeper = at_depth(costs, offer, depth, tokens, others);
    if (deeper.extra > (known || depth == 1 ? allowance : kFirstPart * allowance)) break;
    if (deeper.tokens - best.tokens > (deeper.steps - best.steps) * best.pace()) best = deeper;
  }
  return best;
}

int DepthPolicy::choose_fixed(std::span<const Offer> offers, int allowed) {
  // The first offer is the one that the text itself supports.
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const int max_depth = std::min({offers[i].max_tokens, allowed, kMaxDraftTokens});
    if (max_depth <= 0) continue;
    reason_.offer = i, reason_.max_tokens = max_depth, reason_.drafter = offers[i].drafter->name();
    return reason_.best.depth = std::min(fixed_, max_depth);
  }
  return 0;
}

void DepthPolicy::note_networks(std::span<const Offer> offers) {
  int networks = 0;
  for (const Offer& offer : offers) {
    const bool network = offer.max_tokens > 0 && offer.drafter->draft_cost(1) > 0;
    if (network) networks_[static_cast<std::size_t>(offer.drafter->number())] = true;
    networks += network ? 1 : 0;
  }
  reason_.rivals = networks > 1;
}

/// Passes of networks count as free: plan_batch() weighs them for all slots together.
BatchSlot DepthPolicy::prospects(const CostModel& costs, std::span<const Offer> offers, int allowed,
                                 const RoundSoFar& plain) {
  offers = offers.first(std::min<std::size_t>(offers.size(), kMaxDrafters));
  note_networks(offers);
  RoundSoFar passing = plain;
  passing.steps_of.fill(std::numeric_limits<double>::max());
  BatchSlot slot;
  slot.fixed = fixed_, slot.context = plain.context, slot.hopeful = follow_, slot.first = round_ == 0;
  double any_pace = 0, free_pace = 0;
  for (const Offer& offer : offers) {
    const int max_depth = std::min({offer.max_tokens, allowed, kMaxDraftTokens});
    if (max_depth <= 0) continue;
    const AcceptanceEstimate::Rates right = rates(offer);
    const Best best = best_depth(costs, offer, max_depth, passing, right, allowance(offer));
    DraftProspect found{offer.drafter, max_depth, {}};
    double chain = 1;
    for (int i = 0; i < max_depth; ++i) {
      chain *= right[static_cast<std::size_t>(i)];
      found.reached[static_cast<std::size_t>(i)] = chain;
      if (fixed_ < 0 && at_depth(costs, offer, i + 1, 1, passing).extra > allowance(offer)) {
        found.max_tokens = i;
        break;
      }
    }
    if (best.pace() > any_pace) any_pace = best.pace(), slot.any = found;
    if (offer.drafter->draft_cost(1) == 0 && best.pace() > free_pace)
      free_pace = best.pace(), slot.free = found;
    if (fixed_ >= 0) break;  // the first offer is the one that the text itself supports
  }
  return slot;
}

int DepthPolicy::choose(const CostModel& costs, std::span<const Offer> offers, int allowed,
                        const RoundSoFar& others) {
  reason_ = {};
  ++round_;
  if (fixed_ >= 0) return choose_fixed(offers, allowed);
  const double plain = costs.round(others.rows + 1, others.draft_steps, others.slots, others.read);
  allowance_ = std::min(kMaxAllowance, allowance_ + kEarn * plain / others.slots);
  std::array<Best, kMaxDrafters> bests;
  const std::size_t count = std::min(offers.size(), bests.size());
  note_networks(offers.first(count));
  std::size_t first = count;
  for (std::size_t i = 0; i < count; ++i) {
    const int max_depth = std::min({offers[i].max_tokens, allowed, kMaxDraftTokens});
    bests[i].tokens = 0;  // it offers nothing
    if (max_depth <= 0) continue;
    bests[i] = offers[i].drafter == others.planned
                   ? planned_depth(costs, offers[i], max_depth, others)
                   : best_depth(costs, offers[i], max_depth, others, rates(offers[i]), allowance(offers[i]));
    reason_.paces[i] = bests[i].pace(), reason_.names[i] = offers[i].drafter->name();
    if (first == count || bests[i].pace() > bests[first].pace()) first = i;
  }
  reason_.offers = count;
  if (first == count) return 0;
  const auto take = [&](std::size_t i) {
    reason_.offer = i, reason_.best = bests[i];
    reason_.max_tokens = std::min({offers[i].max_tokens, allowed, kMaxDraftTokens});
    reason_.drafter = offers[i].drafter->name(), reason_.free = offers[i].drafter->draft_cost(1) == 0;
    reason_.rates = rates(offers[i]);
  };
  take(first);
  reason_.cheaper = tried_cheaper(costs, offers[first], others);
  exploration_budget_ =
      std::min(kMaxExplorationBudget, exploration_budget_ + kExplore * bests[first].steps / others.slots);
  if (count > 1 && explore(offers.first(count), std::span(bests).first(count), costs, others)) {
    take(reason_.offer);
    reason_.exploring = true;
  }
  if (reason_.best.depth > 0 && others.held)
    reason_.best = at_depth(costs, offers[reason_.offer], 0, 1, others);
  if (reason_.best.depth > 0) {
    idle_ = 0;
    next_probe_ = kFirstProbe;
    if (!reason_.exploring) try_again(costs, offers[first], reason_.max_tokens, others);
    last_draft_[static_cast<std::size_t>(offers[reason_.offer].drafter->number())] = round_;
    return reason_.best.depth;
  }
  if (reason_.rates[0] > kLikely && try_again(costs, offers[reason_.offer], reason_.max_tokens, others))
    return reason_.best.depth;
  return probe(costs, offers.first(count), allowed, others);
}

/// The last round tried a depth that did not seem to pay, and took less time than expected.
bool DepthPolicy::tried_cheaper(const CostModel& costs, const Offer& offer, const RoundSoFar& others) {
  constexpr double kCheaper = 0.9;
  const Best before = std::exchange(tried_, {});
  return before.depth > 0 && at_depth(costs, offer, before.depth, 1, others).steps < kCheaper * before.steps;
}

/// An untried drafter is never learnt about: one that has not drafted for long may do so once, if its
/// expected loss fits into the budget. True: reason_.offer is that drafter.
bool DepthPolicy::explore(std::span<const Offer> offers, std::span<Best> bests, const CostModel& costs,
                          const RoundSoFar& others) {
  const std::size_t best = reason_.offer;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const auto number = static_cast<std::size_t>(offers[i].drafter->number());
    if (i == best || bests[i].tokens <= 0 || round_ - last_draft_[number] < kStale) continue;
    Best tried = bests[i];
    if (tried.depth == 0) tried = at_depth(costs, offers[i], 1, 1 + rates(offers[i])[0], others);
    const double loss = std::max(0.0, tried.steps - tried.tokens / bests[best].pace()) / others.slots;
    if (loss > exploration_budget_ || tried.extra > allowance_) continue;
    exploration_budget_ -= loss;
    bests[i] = tried;
    reason_.offer = i;
    return true;
  }
  return false;
}

/// Costs measured at a bad moment would rule out a depth that acceptance favours: now and then a
/// round goes as deep as it would at half the extra cost, and so measures it again; less often where it is
/// expected to lose more, at once where the last try took less time than expected.
bool DepthPolicy::try_again(const CostModel& costs, const Offer& offer, int max_depth,
                            const RoundSoFar& others) {
  if (others.slots > 1) return false;  // the batch does so for all of its slots
  if (++shallow_ < kRetry && !reason_.cheaper) return false;
  const Best plain = at_depth(costs, offer, 0, 1, others);
  double chain = 1, tokens = 1;
  Best deeper;
  double pace = reason_.best.pace();
  for (int depth = 1; depth <= max_depth; ++depth) {
    chain *= reason_.rates[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const Best there = at_depth(costs, offer, depth, tokens, others);
    const double hoped = there.tokens / (plain.steps + 0.5 * (there.steps - plain.steps));
    if (hoped > pace && there.extra <= allowance(offer)) pace = hoped, deeper = there;
  }
  const bool found = deeper.depth > reason_.best.depth;
  const double loss = found ? deeper.steps - deeper.tokens / reason_.best.pace() : 0;
  if (!reason_.cheaper && shallow_ < std::min<double>(kLastRetry, loss / kRetrying)) return false;
  shallow_ = 0;
  if (found) reason_.best = tried_ = deeper;
  return found;
}

/// No depth of any offer pays: the most hopeful one is tried now and then, less often each time. A network
/// that drafts a whole block in one pass shows more at little more cost.
int DepthPolicy::probe(const CostModel& costs, std::span<const Offer> offers, int allowed,
                       const RoundSoFar& others) {
  std::size_t hopeful = reason_.offer;
  double best_rate = -1;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (offers[i].max_tokens <= 0) continue;
    AcceptanceEstimate& known = estimate(*offers[i].drafter, offers[i].context_class);
    known.age();
    if (known.rates()[0] > best_rate) best_rate = known.rates()[0], hopeful = i;
  }
  const Offer& offer = offers[hopeful];
  const int deepest = std::min({offer.max_tokens, allowed, kMaxDraftTokens});
  reason_.held =
      best_depth(costs, offer, deepest, others, rates(offer), std::numeric_limits<double>::max()).depth > 0;
  if (reason_.cheaper) idle_ = next_probe_;
  const bool due = ++idle_ >= next_probe_ && others.slots == 1;
  follow_ = false;
  if (!due && !others.probe) return 0;
  const bool block = offer.drafter->draft_cost(1) > 0 && offer.drafter->draft_cost(deepest) == 1;
  AcceptanceEstimate::Rates hoped;
  hoped.fill(AcceptanceEstimate::kPrior);
  Best tried = at_depth(costs, offer, 1, 1 + best_rate, others);
  if (block) {
    const Best deeper = best_depth(costs, offer, deepest, others, hoped, allowance_);
    if (deeper.depth > 1) tried = deeper;
  }
  if (tried.extra > allowance_ && !others.probe) return 0;  // as soon as the allowance covers it
  idle_ = 0;
  const double part = tried.extra / (tried.steps - tried.extra) / kProbing;
  next_probe_ =
      std::min(2 * next_probe_, static_cast<int>(std::clamp<double>(part, kFirstProbe, kLastProbe)));
  reason_.offer = hopeful;
  reason_.probe = true, reason_.likely = others.slots == 1 && best_rate > kLikely;
  reason_.best = tried_ = tried;
  reason_.drafter = offer.drafter->name();
  return tried.depth;
}

void DepthPolicy::observe(int drafted, int accepted, const Drafter& drafter, int context_class) {
  AcceptanceEstimate& known = estimate(drafter, context_class);
  const bool before = known.poor();
  known.observe(drafted, accepted);
  if (fixed_ < 0 && drafted > 0)
    allowance_ =
        std::clamp(allowance_ + accepted * reason_.best.saves - reason_.best.extra, 0.0, kMaxAllowance);
  // The other networks' results on the text before say little about this one.
  const bool fell = !before && known.poor() && drafter.draft_cost(1) > 0;
  for (std::size_t i = 0; fell && i < estimates_.size(); ++i) {
    if (networks_[i] && static_cast<int>(i) != drafter.number()) estimates_[i][0].doubt();
  }
  // A probe that paid is followed by another at once, or one that was right unless that was known: then costs
  // rule drafts out.
  const bool paid = accepted * reason_.best.saves > reason_.best.extra;
  const bool news = accepted == drafted && !reason_.likely;
  if (reason_.probe && drafted > 0 && (paid || news)) idle_ = next_probe_ - 1, follow_ = true;
}

double DepthPolicy::reached() const {
  double chain = 1;
  for (int i = 0; fixed_ < 0 && i < reason_.best.depth; ++i)
    chain *= reason_.rates[static_cast<std::size_t>(i)];
  return chain;
}

int DepthPolicy::choose_more(const CostModel& costs, const Drafter& text, int context_class, int available,
                             const RoundSoFar& others) {
  const int depth = reason_.best.depth;
  available = std::min(available, kMaxDraftTokens - depth);
  if (fixed_ >= 0) return std::clamp(fixed_ - depth, 0, available);
  const AcceptanceEstimate& known = estimate(text, context_class);
  const AcceptanceEstimate::Rates right = known.rates();
  const double affordable = known.sure() ? std::numeric_limits<double>::max() : allowance_;
  double chain = reached();
  int chosen = 0;
  Best best = reason_.best;
  best.tokens = others.tokens + best.expected;
  ContextRead read = others.read;
  best.steps = costs.round(others.rows + 1 + depth, others.draft_steps, others.slots, read);
  const double without = best.steps;
  double tokens = best.tokens;
  for (int more = 1; more <= available; ++more) {
    chain *= right[static_cast<std::size_t>(more - 1)];
    tokens += chain;
    read.drafts += others.context;
    const double steps = costs.round(others.rows + 1 + depth + more, others.draft_steps, others.slots, read);
    if (reason_.best.extra + steps - without > affordable) break;
    if (tokens - best.tokens <= (steps - best.steps) * best.pace()) continue;
    best.tokens = tokens, best.steps = steps;
    chosen = more;
  }
  best.expected = best.tokens - others.tokens, best.extra += best.steps - without;
  reason_.best = best;
  return chosen;
}

void DepthPolicy::observe_more(int drafted, int accepted, const Drafter& text, int context_class) {
  estimate(text, context_class).observe(drafted, accepted);
  if (fixed_ < 0) allowance_ = std::min(kMaxAllowance, allowance_ + accepted * reason_.best.saves);
}

void DepthPolicy::teach(AcceptancePrior& prior, int slots) const {
  if (fixed_ >= 0) return;
  constexpr double kShare = 0.25;
  constexpr double kWhole = 4;   // drafts that count as much as a whole request
  constexpr double kMin = 0.15;  // so that bad rates of earlier texts do not rule out a new one
  constexpr double kMaxRate = 0.99;
  for (std::size_t i = 0; i < estimates_.size(); ++i) {
    for (std::size_t context_class = 0; context_class < estimates_[i].size(); ++context_class) {
      const AcceptanceEstimate& known = estimates_[i][context_class];
      const AcceptanceEstimate::Rates rates = known.rates();
      AcceptanceEstimate::Rates& taught = prior.rates[i][context_class];
      const AcceptanceEstimate::Rates before = taught;
      const auto share = [&](std::size_t at) { return kShare * std::min(1.0, known.seen(at) / kWhole); };
      taught[0] += share(0) / slots * (rates[0] - taught[0]);
      // The loss from one position to the next depends on the drafter, and hardly on the text.
      for (std::size_t at = 1; at < rates.size(); ++at) {
        const double step = before[at] - before[at - 1];
        taught[at] = taught[at - 1] + step + share(at) * (rates[at] - rates[at - 1] - step);
      }
      for (double& rate : taught) rate = std::clamp(rate, kMin, kMaxRate);
    }
  }
  prior.exploration_budget = exploration_budget_;
  prior.wrong_draft_allowance = std::max(allowance_, kMinAllowance);
  prior.shallow = shallow_;
}

std::string DepthPolicy::explain() const {
  const int depth = reason_.best.depth;
  if (reason_.max_tokens <= 0) return "depth 0: nothing to draft or no room for it";
  if (fixed_ >= 0) return fmt::format("depth {}: as requested", depth);
  std::string rates;
  for (int i = 0; i < std::min(reason_.max_tokens, std::max(depth, 2) + 1); ++i)
    rates += fmt::format(" {:.2f}", reason_.rates[static_cast<std::size_t>(i)]);
  const std::string source = fmt::format("{}, {}", reason_.drafter, reason_.free ? "free drafts" : "drafts");
  std::string others;
  for (std::size_t i = 0; i < reason_.offers; ++i) {
    if (i != reason_.offer && reason_.paces[i] > 0)
      others += fmt::format("{} {} {:.2f}", others.empty() ? "; others, tokens a step:" : ",",
                            reason_.names[i], reason_.paces[i]);
  }
  if (reason_.probe) return fmt::format("depth {}: a probe of {} right{}", depth, source, rates);
  if (depth == 0 && reason_.held)
    return fmt::format("depth 0: {} right{}; drafting paused: recent drafts were rejected", source, rates);
  if (depth == 0) return fmt::format("depth 0: {} right{}, no depth pays{}", source, rates, others);
  return fmt::format("depth {}: {}{} right{}; {:.2f} tokens expected for {:.2f} plain steps{}", depth,
                     reason_.exploring ? "exploring " : "", source, rates, reason_.best.tokens,
                     reason_.best.steps, others);
}

}  // namespace ft
