#include "speculation/batch_plan.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

constexpr std::array<double, 16> kThresholds = {0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.17, 0.22,
                                                0.28, 0.35, 0.42, 0.5,  0.6, 0.7,  0.8,  0.9};
constexpr double kGain = 1.02;  // minimum gain of drafts: a smaller one may be an error of the estimates

struct Rule {
  double threshold = 1;
  int limit = 0;  // of drafts of a network
  bool networks = false;
};

const DraftProspect& prospect(const BatchSlot& slot, const Rule& rule) {
  return rule.networks || slot.fixed >= 0 ? slot.any : slot.free;
}

int depth_of(const BatchSlot& slot, const DraftProspect& offer, const Rule& rule) {
  if (offer.drafter == nullptr) return 0;
  if (slot.fixed >= 0) return std::min(slot.fixed, offer.max_tokens);
  const int most =
      offer.drafter->draft_cost(1) > 0 ? std::min(offer.max_tokens, rule.limit) : offer.max_tokens;
  int depth = 0;
  while (depth < most && offer.reached[static_cast<std::size_t>(depth)] > rule.threshold) ++depth;
  return depth;
}

BatchPlan apply(const CostModel& costs, std::span<const BatchSlot> slots, const ContextRead& read,
                const Rule& rule) {
  BatchPlan plan;
  plan.read = read;
  for (const BatchSlot& slot : slots) {
    const DraftProspect& offer = prospect(slot, rule);
    const int depth = depth_of(slot, offer, rule);
    plan.rows += 1 + depth;
    plan.tokens += 1;
    for (int i = 0; i < depth; ++i) plan.tokens += offer.reached[static_cast<std::size_t>(i)];
    plan.read.drafts += depth * slot.context;
    if (depth == 0) continue;
    double& known = plan.steps_of[static_cast<std::size_t>(offer.drafter->number())];
    known = std::max(known, costs.draft_steps(*offer.drafter, depth));
  }
  for (const double steps : plan.steps_of) plan.draft_steps += steps;
  plan.steps = costs.round(plan.rows, plan.draft_steps, static_cast<int>(slots.size()), plan.read);
  return plan;
}

}  // namespace

BatchPlan plan_batch(const CostModel& costs, std::span<const BatchSlot> slots, const ContextRead& read,
                     std::span<int> depths, std::span<const Drafter*> drafters, double hope) {
  Rule best_rule;
  BatchPlan best = apply(costs, slots, read, best_rule);
  const double plain_steps = best.steps;
  double wanted = kGain * best.pace();
  const auto consider = [&](const Rule& rule) {
    const BatchPlan plan = apply(costs, slots, read, rule);
    const double hoped = plan.tokens / (plain_steps + hope * (plan.steps - plain_steps));
    if (hoped > wanted) wanted = hoped, best = plan, best_rule = rule;
  };
  int deepest = 0;
  bool free = false;
  for (const BatchSlot& slot : slots) {
    if (slot.any.drafter != nullptr && slot.any.drafter->draft_cost(1) > 0)
      deepest = std::max(deepest, slot.any.max_tokens);
    free = free || slot.free.max_tokens > 0;
  }
  for (const double threshold : kThresholds) {
    if (free) consider({threshold, 0, false});
    for (int limit = 1; limit <= deepest; limit += limit < 6 ? 1 : 3) consider({threshold, limit, true});
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const DraftProspect& offer = prospect(slots[i], best_rule);
    depths[i] = depth_of(slots[i], offer, best_rule);
    drafters[i] = offer.drafter;
  }
  return best;
}

}  // namespace ft
