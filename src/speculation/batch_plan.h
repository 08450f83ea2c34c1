// Chooses the depth of each slot of a batch for all slots together: a pass of a draft network serves every
// slot, so whether it pays cannot be decided for one slot after another. Maximises expected tokens per unit
// of time. Each slot drafts while the chance that a draft is reached and right is above a threshold, and no
// deeper than a limit; all pairs of threshold and limit are tried. Cost: some 20 microseconds for 64 slots.
// Allocates nothing.
#pragma once

#include <array>
#include <span>

#include "drafters/drafter.h"
#include "speculation/cost_model.h"

namespace ft {

/// The offer of one drafter for one slot.
struct DraftProspect {
  const Drafter* drafter = nullptr;  // null: nothing
  int max_tokens = 0;
  std::array<double, kMaxDraftTokens> reached{};  // chance that draft i + 1 and all before it are right
};

struct BatchSlot {
  DraftProspect any, free;  // the best, and the best of those that need no network
  int fixed = -1;           // depth that the request asked for; -1: it is chosen
  double context = 0;       // in units of 1024 positions
  bool hopeful = false;     // its last probe was right
  bool first = false;       // of its request's rounds: a drafter has nothing to catch up
};

/// The plan of a batch.
struct BatchPlan {
  int rows = 0;
  double tokens = 0, steps = 0;  // steps: plain steps of one slot
  double draft_steps = 0;
  ContextRead read;                             // of all sequences and drafts
  std::array<double, kMaxDrafters> steps_of{};  // [Drafter::number()] of draft_steps

  double pace() const { return steps > 0 ? tokens / steps : 0; }
};

/// Fills `depths` and `drafters`, one for each slot. `hope`: the assumed fraction of the measured extra cost
/// of drafts over a plain round; 1: all of it.
BatchPlan plan_batch(const CostModel& costs, std::span<const BatchSlot> slots, const ContextRead& read,
                     std::span<int> depths, std::span<const Drafter*> drafters, double hope = 1);

}  // namespace ft
