// Text after a block: the rows that a block drafter leaves unused hold tokens that lookup finds after its
// drafts, if their expected gain exceeds the cost of the rows. The host must know the drafts first, so it
// waits for a device; it does so only if lookup had found the current text earlier.
#include <algorithm>

#include "drafters/guarded.h"
#include "speculation/round.h"

namespace ft {

/// Rows for text after the entry's drafts: 0 unless a block drafts and text was offered.
int Round::room_after(const Entry& entry) {
  const DraftSlot& draft = entry.draft;
  constexpr double kHopeful = 0.1;  // chance that the text is reached
  const bool block = entry.drafter() != nullptr && entry.source->draft_cost(2) == 1;
  if (!block || entry.slot->policy.reached() < kHopeful) return 0;
  const auto offering = std::span(entry.offering).first(entry.offer_count);
  const bool found =
      std::ranges::any_of(offering, [](const Drafter* one) { return one->draft_cost(1) == 0; });
  const int fixed = entry.slot->options.depth;
  const int most = fixed >= 0 ? std::min(fixed, entry.allowed) : entry.allowed;
  return found ? std::max(0, most - draft.depth) : 0;
}

/// The round with the entry's neighbours and all draft steps.
RoundSoFar Round::others_of(const Entry& entry) const {
  RoundSoFar others;
  others.slots = static_cast<int>(active_);
  for (std::size_t i = 0; i < active_; ++i) {
    const Entry& other = entries_[i];
    if (&other == &entry) continue;
    others.rows += 1 + other.draft.drafted;
    others.tokens += other.jump_forward ? 1 + other.draft.depth : other.slot->policy.expected();
  }
  others.draft_steps = shape_.draft_steps, others.read = shape_.read;
  others.context = static_cast<double>(entry.slot->tokens.size()) / 1024;
  return others;
}

void Round::continue_drafts(Entry& entry, const CostModel& costs) {
  DraftSlot& draft = entry.draft;
  const int room = room_after(entry);
  if (room == 0 || draft.drafted == 0 || draft.drafted < draft.depth) return;
  if (!draft.known) {
    work_meanwhile();
    entry.drafter()->collect();
    draft.known = true;
  }
  for (Drafter* const text : std::span(entry.offering).first(entry.offer_count)) {
    if (text->draft_cost(1) != 0) continue;
    Drafter::Continuation found;
    const Status status = guarded([&]() -> Status {
      found = text->continue_drafts(draft, room);
      return {};
    });
    if (!status.ok() || found.count <= 0) continue;
    const int more =
        entry.slot->policy.choose_more(costs, *text, found.context_class, found.count, others_of(entry));
    if (more <= 0) return;
    entry.text = text, entry.text_class = found.context_class, entry.own = draft.drafted;
    for (int i = 0; draft.rejection && i < more; ++i) {
      const auto at = static_cast<std::size_t>(draft.drafted + i);
      (*draft.proposal)[at].entries.assign(1, {draft.drafts[at], 1.0F});
    }
    draft.drafted += more;
    shape_.deepest = std::max(shape_.deepest, draft.drafted);
    shape_.read.drafts += more * static_cast<double>(entry.slot->tokens.size()) / 1024;
    return;
  }
}

/// Counts the drafts of the source and the drafts of the text separately.
void Round::note_drafts(const Entry& entry, int accepted, int counted) {
  Slot& slot = *entry.slot;
  const int drafted = entry.draft.drafted;
  const int own = entry.text != nullptr ? std::min(entry.own, drafted) : drafted;
  slot.policy.observe(own, std::min(accepted, own), *entry.source, entry.context_class);
  slot.report.by_drafter[static_cast<std::size_t>(entry.source->number())].add(
      {entry.source->name(), 1, own, std::min(counted, own)});
  if (drafted == own) return;
  slot.report.by_drafter[static_cast<std::size_t>(entry.text->number())].add(
      {entry.text->name(), 1, drafted - own, std::max(0, counted - own)});
  if (accepted >= own) slot.policy.observe_more(drafted - own, accepted - own, *entry.text, entry.text_class);
}

}  // namespace ft
