#include "drafters/chain_pass.h"

#include <algorithm>

#include "program/late_masks.h"

namespace ft {

SampleRow chain_sample(const DraftSlot& slot, int step) {
  SampleRow row = slot.sample;
  row.position += step;
  row.stream = slot.rejection ? Stream::kDraft : Stream::kTarget;
  row.drafts = {slot.store, step};
  row.store = slot.store + step;
  row.exact = false;
  return row;
}

void submit_pass(Executable& network, const StepArgs& args, State& state, std::span<DraftSlot*> slots,
                 int step, std::span<SampleRow> samples) {
  const bool masked = std::ranges::any_of(
      slots, [&](const DraftSlot* slot) { return slot->depth > step && slot->constraint != nullptr; });
  submit_with_masks(network, args, state, masked, [&] {
    std::size_t next = 0;
    for (const DraftSlot* slot : slots) {
      if (slot->depth <= step) continue;
      SampleRow& row = samples[next++];
      if (slot->constraint == nullptr) continue;
      const auto drafts =
          slot->drafts.first(static_cast<std::size_t>(step));        // known: the pass before waited
      row.mask = slot->constraint->mask(drafts).value_or(row.mask);  // without one: the round cuts here
    }
  });
}

void take_drafts(std::span<DraftSlot*> slots, int step, const StepResult& result, const Executable& network,
                 std::span<const SampleRow> samples, SampleScratch& scratch) {
  const auto vocabulary = static_cast<std::size_t>(network.vocabulary());
  const auto at = static_cast<std::size_t>(step);
  std::size_t next = 0;
  for (DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    if (slot->rejection) {
      distribution(result.logits.subspan(next * vocabulary, vocabulary), network.ids(), samples[next],
                   scratch, (*slot->proposal)[at], slot->drafts.first(at));
    }
    slot->drafted = step + 1;
    ++next;
  }
}

}  // namespace ft
