#include "speculation/batch_planner.h"

#include <algorithm>

namespace ft {

void BatchPlanner::plan(const CostModel& costs, std::span<const BatchSlot> slots, const ContextRead& read) {
  constexpr double kNever = 1e9;
  slots_ = slots, read_ = read;
  plan_depths(costs, account_ > 0 ? 1 : kNever);
  if (++shallow_ >= kRetry) plan_retry(costs);
  std::ranges::fill(probing_, 0);
  plan_probes(costs);
}

/// `hope`: see plan_batch().
void BatchPlanner::plan_depths(const CostModel& costs, double hope) {
  plan_ = plan_batch(costs, slots_, read_, std::span(depths_).first(slots_.size()),
                     std::span(drafters_).first(slots_.size()), hope);
}

/// True only if drafts are likely to be right, so that costs alone rule them out.
void BatchPlanner::plan_retry(const CostModel& costs) {
  constexpr double kLikely = 0.5, kHope = 0.5;
  shallow_ = 0;
  const auto likely = std::ranges::count_if(slots_, [](const BatchSlot& slot) {
    return slot.any.drafter != nullptr && slot.any.reached[0] > kLikely;
  });
  if (2 * likely < std::ssize(slots_) || account_ <= 0) return;
  const BatchPlan usual = plan_;
  plan_depths(costs, kHope);
  if (plan_.steps / usual.steps - plan_.tokens / usual.tokens > account_) plan_depths(costs, 1);
}

/// The slot could draft and is not planned to.
bool BatchPlanner::idles(std::size_t slot) const {
  return depths_[slot] == 0 && slots_[slot].any.drafter != nullptr && slots_[slot].fixed < 0;
}

/// Steps that `probes` add to the round.
double BatchPlanner::probe_steps(const CostModel& costs, std::size_t probes, double passes) const {
  const double with = costs.round(plan_.rows + static_cast<int>(probes), plan_.draft_steps + passes,
                                  static_cast<int>(slots_.size()), read_);
  return std::max(0.0, with - plan_.steps);
}

void BatchPlanner::plan_probes(const CostModel& costs) {
  std::size_t idle = 0, hopeful = 0, drafting = 0, first = 0;
  double expected = 0;  // right drafts of requests that begin
  const Drafter* drafter = nullptr;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (depths_[i] > 0) ++drafting;
    if (!idles(i)) continue;
    ++idle;
    if (slots_[i].hopeful) ++hopeful;
    if (slots_[i].first) ++first, expected += slots_[i].any.reached[0];
    drafter = slots_[i].any.drafter;
  }
  ++idle_;
  const bool together = 4 * first >= slots_.size();  // a few would pay for a GPU's next tile of rows alone
  if (idle == 0 || (idle_ < kIdle && hopeful == 0 && !together)) return;
  double& known = plan_.steps_of[static_cast<std::size_t>(drafter->number())];
  const double passes = std::max(0.0, costs.draft_steps(*drafter, 1) - known);
  const bool beginning = hopeful == 0 && idle_ < kIdle;
  std::size_t probes = beginning ? first : idle;
  double steps = probe_steps(costs, probes, passes);
  if (drafting == 0 && hopeful == 0 && !beginning) {
    constexpr double kNearlyAll = 0.6;  // a GPU's next tile of rows costs the same for one row as for eight
    const std::size_t few = std::max<std::size_t>(1, idle / 4);
    if (const double less = probe_steps(costs, few, passes); less < kNearlyAll * steps)
      probes = few, steps = less;
  }
  // Drafts after right ones are expected to be as right, so that a round of them may cost little or gain.
  const double right =
      hopeful > 0 ? static_cast<double>(std::min(hopeful, probed_)) / static_cast<double>(probed_) : 0;
  const double gain = beginning ? expected : right * static_cast<double>(probes);
  if (steps / plan_.steps - gain / static_cast<double>(slots_.size()) > account_) return;
  idle_ = 0, probed_ = probes;
  known += passes, plan_.draft_steps += passes;
  for (std::size_t seen = 0; seen < slots_.size() && probes > 0; ++seen) {
    const std::size_t i = next_++ % slots_.size();
    if (!idles(i) || (beginning && !slots_[i].first)) continue;
    probing_[i] = 1;
    --probes;
  }
}

void BatchPlanner::ended(const CostModel& costs, int rows, double draft_steps, int tokens) {
  const int slots = static_cast<int>(slots_.size());
  const double plain = costs.round(slots, 0, slots, read_);
  const double took = costs.round(rows, draft_steps, slots, plan_.read) / plain;
  account_ =
      std::clamp(account_ + kEarn + static_cast<double>(tokens) / slots - took, -kMaxAccount, kMaxAccount);
}

RoundSoFar BatchPlanner::others(std::size_t index) const {
  RoundSoFar others;
  const BatchSlot& slot = slots_[index];
  others.slots = static_cast<int>(slots_.size());
  others.rows = plan_.rows - 1 - depths_[index];
  others.tokens = plan_.tokens - 1;
  if (const Drafter* drafter = drafters_[index]; drafter != nullptr) {
    if (depths_[index] > 0 && slot.fixed < 0) others.planned = drafter, others.depth = depths_[index];
    const DraftProspect& planned = slot.any.drafter == drafter ? slot.any : slot.free;
    for (int i = 0; i < depths_[index]; ++i) others.tokens -= planned.reached[static_cast<std::size_t>(i)];
  }
  others.draft_steps = plan_.draft_steps;
  others.steps_of = plan_.steps_of;
  others.read = plan_.read;
  others.read.drafts -= depths_[index] * slot.context;
  others.context = slot.context;
  others.probe = probing_[index] != 0;
  others.held = account_ <= 0;
  return others;
}

}  // namespace ft
