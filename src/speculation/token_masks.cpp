// Constraints in a round: the drafts that they force, the drafts that they forbid, and the mask of each row.
#include <algorithm>

#include "speculation/round.h"

namespace ft {

/// Drafts the tokens that the constraint forces, if they are at least as many as a drafter would draft. A
/// request without drafts gets none.
bool Round::take_jump_forward(Entry& entry, int allowed) {
  const Slot& slot = *entry.slot;
  DraftSlot& draft = entry.draft;
  if (draft.constraint == nullptr || slot.drafter == nullptr) return false;
  if (slot.options.depth >= 0) allowed = std::min(allowed, slot.options.depth);
  const int jump_forward =
      draft.constraint->jump_forward(draft.drafts.first(static_cast<std::size_t>(allowed)));
  if (jump_forward == 0 || jump_forward < draft.depth) return false;
  draft.depth = draft.drafted = jump_forward;
  entry.source = nullptr;
  for (int i = 0; draft.rejection && i < jump_forward; ++i) {
    const auto at = static_cast<std::size_t>(i);
    (*draft.proposal)[at].entries.assign(1, {draft.drafts[at], 1.0F});
  }
  return true;
}

/// Cuts the drafts where the constraint forbids one.
void Round::keep_allowed(Entry& entry) {
  DraftSlot& draft = entry.draft;
  if (draft.constraint == nullptr) return;
  for (int i = 0; i < draft.drafted; ++i) {
    if (!draft.constraint->allows(draft.drafts.first(static_cast<std::size_t>(i) + 1))) draft.drafted = i;
  }
}

/// The masks of the entry's rows. A draft before a row without a mask is not counted; if the next token has
/// no mask, the answer ends with the reason.
void Round::add_masks(Entry& entry) {
  DraftSlot& draft = entry.draft;
  if (draft.constraint == nullptr) return;
  for (int row = 0; row <= draft.drafted; ++row) {
    const auto mask = draft.constraint->mask(draft.drafts.first(static_cast<std::size_t>(row)));
    if (mask) {
      samples_[static_cast<std::size_t>(entry.first_row + row)].mask = *mask;
    } else if (row > 0) {
      draft.drafted = row - 1;
    } else {
      entry.slot->finish = Finish::kError;
      entry.slot->error = draft.constraint->problem();
      return;
    }
  }
}

}  // namespace ft
