#include "drafters/combined.h"

namespace ft {

Status CombinedDrafter::open(int slot, std::int64_t position) {
  FT_TRY(lookup_.open(slot, position));
  return head_.open(slot, position);
}

void CombinedDrafter::close(int slot) {
  lookup_.close(slot);
  head_.close(slot);
}

Status CombinedDrafter::restore(int slot, const DraftMemory& memory, std::int64_t length) {
  FT_TRY(lookup_.open(slot, length));  // it reads the tokens
  return head_.restore(slot, memory, length);
}

Status CombinedDrafter::observe(int slot, std::span<const std::int32_t> tokens, bool prompt) {
  FT_TRY(lookup_.observe(slot, tokens, prompt));
  return head_.observe(slot, tokens, prompt);
}

int CombinedDrafter::plan(const DraftSlot& slot) {
  const int found = lookup_.plan(slot);
  const int from_head = head_.plan(slot);
  const bool take_lookup = found > 0 && (lookup_.match_length(slot.id) >= kLongMatch || from_head == 0);
  long_match_[static_cast<std::size_t>(slot.id)] = take_lookup ? 1 : 0;
  return take_lookup ? found : from_head;
}

Status CombinedDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  by_head_.clear(), by_lookup_.clear();
  for (DraftSlot* slot : slots) {
    (by_lookup(slot->id) ? by_lookup_ : by_head_).push_back(slot);
  }
  FT_TRY(lookup_.propose(by_lookup_, round_tokens));
  if (by_head_.empty()) return {};
  return head_.propose(by_head_, round_tokens);
}

}  // namespace ft
