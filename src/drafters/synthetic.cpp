#include "drafters/synthetic.h"

#include <algorithm>

#include "sampling/philox.h"

namespace ft {

int SyntheticDrafter::plan(const DraftSlot& slot) {
  if (slot.tokens.size() >= recorded_.size()) return 0;
  const std::size_t left = recorded_.size() - slot.tokens.size();
  const int most = static_cast<int>(std::min({left, schedule_.size(), slot.drafts.size()}));
  return inner_ != nullptr ? std::min(most, inner_->plan(slot)) : most;
}

Status SyntheticDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  if (inner_ != nullptr) {
    inner_slots_.clear(), inner_pointers_.clear();
    inner_tokens_.resize(round_tokens.size());
    for (const DraftSlot* slot : slots) {
      DraftSlot& own = inner_slots_.emplace_back(*slot);
      own.drafts =
          std::span(inner_tokens_).subspan(static_cast<std::size_t>(slot->store), slot->drafts.size());
    }
    for (DraftSlot& slot : inner_slots_) inner_pointers_.push_back(&slot);
    FT_TRY(inner_->propose(inner_pointers_, inner_tokens_));
  }
  for (std::size_t s = 0; s < slots.size(); ++s) {
    DraftSlot* const slot = slots[s];
    slot->drafted = std::min(slot->depth, plan(*slot));
    if (inner_ != nullptr) slot->backlog_rows = inner_slots_[s].backlog_rows;
    for (int i = 0; i < slot->drafted; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t position = static_cast<std::int64_t>(slot->tokens.size()) + i;
      const std::int32_t right = recorded_[static_cast<std::size_t>(position)];
      const bool good = uniform(seed_, position, i, Stream::kAccept) < schedule_[at];
      slot->drafts[at] = good ? right : (right == 0 ? 1 : right - 1);
      if (slot->rejection) (*slot->proposal)[at].entries.assign(1, {slot->drafts[at], 1.0F});
    }
  }
  return {};
}

}  // namespace ft
