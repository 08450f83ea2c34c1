// Passes of a network that drafts one token after the other, for all slots at once. Drafters with a separate
// network share the code that samples a pass and reads its drafts on the host.
#pragma once

#include <span>

#include "drafters/drafter.h"
#include "sampling/sample.h"

namespace ft {

/// How the pass `step` samples the draft of a slot, with the noise of the token that it guesses and without
/// the mask of its constraint.
SampleRow chain_sample(const DraftSlot& slot, int step);

/// Submits the pass `step`, with the masks of constraints added to `samples`, the samples of `args`: one for
/// each slot that drafts in the pass, in the slots' order. The host knows the drafts before a row with a
/// constraint.
void submit_pass(Executable& network, const StepArgs& args, State& state, std::span<DraftSlot*> slots,
                 int step, std::span<SampleRow> samples);

/// After the pass `step`: counts its drafts and, for rejection sampling, keeps their distributions.
/// `samples`: one for each slot that drafts in the pass, in the slots' order. `result` is the pass's result
/// where a slot needs logits, else empty.
void take_drafts(std::span<DraftSlot*> slots, int step, const StepResult& result, const Executable& network,
                 std::span<const SampleRow> samples, SampleScratch& scratch);

}  // namespace ft
