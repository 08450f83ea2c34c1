#include "speculation/batch_draft_gate.h"

#include <algorithm>

namespace ft {

void BatchDraftGate::Rate::add(int more_tokens, double more_ms) {
  constexpr double kKept = 0.95;
  constexpr double kLate = 3;  // a round that the machine held up says little
  const double mean = seen > 0 ? ms / tokens * more_tokens : more_ms;
  tokens = kKept * tokens + more_tokens;
  ms = kKept * ms + std::min(more_ms, kLate * mean);
  ++seen;
}

BatchDraftGate::Batch& BatchDraftGate::of(int slots) {
  return batches_[static_cast<std::size_t>(std::clamp(slots, 0, kSlots))];
}

bool BatchDraftGate::drafts(int slots) {
  if (slots < 2) return true;
  Batch& batch = of(slots);
  if (--batch.left >= 0) return batch.drafting;
  if (!batch.trial) {  // the other way for a few rounds
    batch.trial = true;
    batch.drafting = !batch.drafting;
    batch.left = (batch.drafting ? kTrial : kPlainTrial) - 1;
    return batch.drafting;
  }
  batch.trial = false;
  const bool known = batch.plain.seen > 0 && batch.drafted.seen > 0;
  const bool win = !known || batch.drafted.value() >= kGain * batch.plain.value();
  batch.drafting = win;
  batch.losing = win ? kFirstLosing : std::min(2 * batch.losing, kLastLosing);
  batch.left = (win ? kWinning : batch.losing) - 1;
  return batch.drafting;
}

void BatchDraftGate::observe(int slots, bool drafted, int tokens, double ms) {
  if (slots < 2 || tokens <= 0 || ms <= 0) return;
  Batch& batch = of(slots);
  (drafted ? batch.drafted : batch.plain).add(tokens, ms);
}

}  // namespace ft
