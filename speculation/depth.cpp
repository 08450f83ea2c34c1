#include "speculation/depth.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ft {

CostModel::CostModel() {
  for (int rows = 1; rows <= kRows; ++rows) verify_[static_cast<std::size_t>(rows)] = 1 + 0.1 * (rows - 1);
}

void CostModel::calibrate(const std::array<double, kRows + 1>& measured, double draft) {
  if (measured[1] <= 0) return;
  verify_[1] = measured[1];
  std::size_t known = 1;
  for (std::size_t rows = 2; rows < measured.size(); ++rows) {
    if (measured[rows] <= 0) continue;
    const double cost = std::max(measured[rows], verify_[known]);  // more rows never cost less
    for (std::size_t between = known + 1; between <= rows; ++between) {
      const double part = static_cast<double>(between - known) / static_cast<double>(rows - known);
      verify_[between] = verify_[known] + part * (cost - verify_[known]);
    }
    known = rows;
  }
  const double slope =
      known > 1 ? (verify_[known] - verify_[1]) / static_cast<double>(known - 1) : 0.1 * verify_[1];
  for (std::size_t rows = known + 1; rows < verify_.size(); ++rows) verify_[rows] = verify_[rows - 1] + slope;
  draft_ = draft > 0 ? draft : 0.15 * verify_[1];
  beyond_ = verify_[kRows] - verify_[kRows - 1];
  slot_ = 0.05 * verify_[1];
  batch_draft_ = 0;
  plain_seen_ = drafted_seen_ = 0;
  measured_ = true;
}

double CostModel::verify(int rows, int slots) const {
  const double known = verify_[static_cast<std::size_t>(std::min(rows, kRows))];
  const double batch = slots > 1 ? (slots - 1) * slot_ + std::max(0, rows - slots) * batch_draft_ : 0;
  return known + std::max(0, rows - kRows) * beyond_ + batch;
}

/// Of a difference, what an estimate that was corrected `seen` times takes over: the first time all of it.
double CostModel::share(double late, int seen) {
  constexpr double kFaster = 0.3;
  constexpr double kSlower = 0.05;
  return late * std::max(late < 0 ? kFaster : kSlower, 1.0 / (1 + seen));
}

/// Plain batches say what a further slot costs, drafted ones what a draft costs beyond that.
void CostModel::observe_batch(int rows, int draft_steps, double cost, int slots) {
  const double expected = verify(rows, slots) + draft_steps * draft_;
  const double late = std::min(cost, 4 * expected) - expected;
  if (rows <= slots) {
    slot_ = std::max(0.0, slot_ + share(late, plain_seen_++) / (slots - 1));
  } else {
    batch_draft_ = std::max(-beyond_, batch_draft_ + share(late, drafted_seen_++) / (rows - slots));
  }
}

void CostModel::observe(int rows, int draft_steps, double cost, int slots) {
  constexpr double kFaster = 0.3;
  constexpr double kSlower = 0.02;
  if (cost <= 0 || rows < 1 || !measured_) return;
  if (slots > 1) return observe_batch(rows, draft_steps, cost, slots);
  if (rows > kRows) return;
  double& verify = verify_[static_cast<std::size_t>(rows)];
  const double expected = verify + draft_steps * draft_;
  const double late = std::min(cost, 4 * expected) - expected;
  const double change = late * (late < 0 ? kFaster : kSlower);
  const double share = verify / expected;
  verify += change * share;
  if (draft_steps > 0) draft_ += change * (1 - share) / draft_steps;
  // More rows never cost less: neighbours that say so were measured at a worse moment.
  for (int i = 1; i < rows; ++i)
    verify_[static_cast<std::size_t>(i)] = std::min(verify_[static_cast<std::size_t>(i)], verify);
  for (int i = rows + 1; i <= kRows; ++i)
    verify_[static_cast<std::size_t>(i)] = std::max(verify_[static_cast<std::size_t>(i)], verify);
}

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

std::array<double, kMaxDraft> AcceptanceEstimate::rates() const {
  constexpr double kPriorWeight = 3;
  constexpr double kEnough = 8;  // weight from which the two means can tell a change
  constexpr double kApart = 0.32;
  std::array<double, kMaxDraft> rates{};
  double before = prior_;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const Position& at = positions_[i];
    double rate = (kPriorWeight * before + at.weight * at.slow) / (kPriorWeight + at.weight);
    if (at.weight > kEnough && std::abs(at.fast - at.slow) > kApart) rate = at.fast;
    before = rates[i] = rate;
  }
  return rates;
}

DepthPolicy::DepthPolicy(int depth, const AcceptancePrior& prior) : fixed_(depth) {
  for (std::size_t i = 0; i < estimates_.size(); ++i) estimates_[i] = AcceptanceEstimate(prior.first[i]);
}

int DepthPolicy::choose_none() {
  reason_ = {};
  return 0;
}

int DepthPolicy::choose(const CostModel& costs, int available, int allowed, const Drafter& drafter,
                        const RoundSoFar& others) {
  constexpr double kBatchMargin = 1.1;  // many slots choose by one estimate: its errors add up
  const int most = std::min({available, allowed, kMaxDraft});
  reason_ = {};
  reason_.most = most, reason_.free = drafter.draft_cost(1) == 0;
  if (most <= 0) return 0;
  if (fixed_ >= 0) return reason_.chosen = std::min(fixed_, most);
  reason_.rates = estimate(drafter).rates();
  double chain = 1;
  double tokens = 1;
  reason_.steps = costs.round(others.rows + 1, others.draft_steps, others.slots);
  reason_.tokens = others.tokens + 1;
  for (int depth = 1; depth <= most; ++depth) {
    chain *= reason_.rates[static_cast<std::size_t>(depth - 1)];
    tokens += chain;
    const int draft_steps = std::max(others.draft_steps, drafter.draft_cost(depth));
    const double steps = costs.round(others.rows + 1 + depth, draft_steps, others.slots);
    const double more = others.tokens + tokens - reason_.tokens;
    const double pace = (others.slots > 1 ? kBatchMargin : 1) * reason_.tokens / reason_.steps;
    if (more <= (steps - reason_.steps) * pace) continue;
    reason_.chosen = depth, reason_.steps = steps, reason_.tokens = others.tokens + tokens;
    reason_.expected = tokens;
  }
  if (reason_.chosen > 0) {
    idle_ = 0;
    next_probe_ = kFirstProbe;
    return reason_.chosen;
  }
  // What is never tried is never learnt: try again now and then, less often each time it does not pay.
  estimate(drafter).age();
  if (++idle_ < next_probe_) return 0;
  idle_ = 0;
  next_probe_ = std::min(2 * next_probe_, kLastProbe);
  reason_.probe = true;
  return reason_.chosen = 1;
}

void DepthPolicy::observe(int drafted, int accepted, const Drafter& drafter) {
  estimate(drafter).observe(drafted, accepted);
  // A probe that was right is followed by another at once.
  if (reason_.probe && drafted > 0 && accepted == drafted) idle_ = next_probe_ - 1;
}

void DepthPolicy::teach(AcceptancePrior& prior) const {
  if (fixed_ >= 0) return;
  constexpr double kShare = 0.25;
  constexpr double kEnough = 8;    // drafts that speak for a whole request
  constexpr double kLeast = 0.15;  // so that a new text is not refused for what others were
  for (std::size_t i = 0; i < estimates_.size(); ++i) {
    const double share = kShare * std::min(1.0, estimates_[i].seen() / kEnough);
    prior.first[i] = std::max(kLeast, (1 - share) * prior.first[i] + share * estimates_[i].rates()[0]);
  }
}

std::string DepthPolicy::explain() const {
  if (reason_.most <= 0) return "depth 0: nothing to draft or no room for it";
  if (fixed_ >= 0) return fmt::format("depth {}: as asked", reason_.chosen);
  std::string rates;
  for (int i = 0; i < std::min(reason_.most, std::max(reason_.chosen, 2) + 1); ++i)
    rates += fmt::format(" {:.2f}", reason_.rates[static_cast<std::size_t>(i)]);
  const char* source = reason_.free ? "free drafts" : "drafts";
  if (reason_.probe) return fmt::format("depth 1: a probe, {} right{}", source, rates);
  if (reason_.chosen == 0) return fmt::format("depth 0: {} right{}, no depth pays", source, rates);
  return fmt::format("depth {}: {} right{}; {:.2f} tokens expected for {:.2f} plain steps", reason_.chosen,
                     source, rates, reason_.tokens, reason_.steps);
}

}  // namespace ft
