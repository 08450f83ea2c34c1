#include "speculation/batch_planner.h"

#include <algorithm>

namespace ft {

void BatchPlanner::plan(const CostModel& costs, std::span<const BatchSlot> slots, const ContextRead& read) {
  slots_ = slots, read_ = read;
  plan_ = plan_batch(costs, slots, read, std::span(depths_).first(slots.size()),
                     std::span(drafters_).first(slots.size()));
  if (++shallow_ >= kRetry) plan_retry(costs);
  std::ranges::fill(probing_, 0);
  plan_probes(costs);
}

/// Only where drafts are likely to be right: then costs alone speak against them.
void BatchPlanner::plan_retry(const CostModel& costs) {
  constexpr double kLikely = 0.5, kHope = 0.5;
  shallow_ = 0;
  const auto likely = std::ranges::count_if(slots_, [](const BatchSlot& slot) {
    return slot.any.drafter != nullptr && slot.any.reached[0] > kLikely;
  });
  if (2 * likely < std::ssize(slots_)) return;
  plan_ = plan_batch(costs, slots_, read_, std::span(depths_).first(slots_.size()),
                     std::span(drafters_).first(slots_.size()), kHope);
}

/// It could draft and is not planned to.
bool BatchPlanner::idles(std::size_t slot) const {
  return depths_[slot] == 0 && slots_[slot].any.drafter != nullptr && slots_[slot].fixed < 0;
}

void BatchPlanner::plan_probes(const CostModel& costs) {
  std::size_t idle = 0, drafting = 0;
  const Drafter* drafter = nullptr;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (depths_[i] > 0) ++drafting;
    if (!idles(i)) continue;
    ++idle;
    drafter = slots_[i].any.drafter;
  }
  ++idle_;
  if (idle == 0 || idle_ < kIdle) return;
  const std::size_t probes = drafting > 0 ? idle : std::max<std::size_t>(1, idle / 4);
  double& known = plan_.steps_of[static_cast<std::size_t>(drafter->number())];
  const double passes = std::max(0.0, costs.draft_steps(*drafter, 1) - known);
  const double cost = costs.round(plan_.rows + static_cast<int>(probes), plan_.draft_steps + passes,
                                  static_cast<int>(slots_.size()), read_);
  if (cost - plan_.steps > kProbing * idle_ * plan_.steps) return;
  idle_ = 0;
  known += passes, plan_.draft_steps += passes;
  std::size_t left = probes;
  for (std::size_t seen = 0; seen < slots_.size() && left > 0; ++seen) {
    const std::size_t i = next_++ % slots_.size();
    if (!idles(i)) continue;
    probing_[i] = 1;
    --left;
  }
}

RoundSoFar BatchPlanner::others(std::size_t index) const {
  RoundSoFar others;
  const BatchSlot& slot = slots_[index];
  others.slots = static_cast<int>(slots_.size());
  others.rows = plan_.rows - 1 - depths_[index];
  others.tokens = plan_.tokens - 1;
  if (const Drafter* drafter = drafters_[index]; drafter != nullptr) {
    const DraftProspect& planned = slot.any.drafter == drafter ? slot.any : slot.free;
    for (int i = 0; i < depths_[index]; ++i) others.tokens -= planned.reached[static_cast<std::size_t>(i)];
  }
  others.draft_steps = plan_.draft_steps;
  others.steps_of = plan_.steps_of;
  others.read = plan_.read;
  others.read.drafts -= depths_[index] * slot.context;
  others.context = slot.context;
  others.probe = probing_[index] != 0;
  return others;
}

}  // namespace ft
