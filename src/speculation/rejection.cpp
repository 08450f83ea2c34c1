// Acceptance by rejection sampling; the coupled rule is in accept.h.
#include "sampling/rejection.h"

#include "speculation/round.h"

namespace ft {

/// Leviathan et al. 2023, algorithm 1: fills `emitted` with the accepted drafts and the residual or bonus
/// token.
int Round::accept_by_rejection(Entry& entry, const StepResult& verified, std::vector<std::int32_t>& emitted) {
  const auto vocabulary = static_cast<std::size_t>(target_.vocabulary());
  const SamplingParams& sampler = entry.slot->options.sampler;
  for (int row = 0; row <= entry.draft.drafted; ++row) {
    const auto at = static_cast<std::size_t>(entry.first_row + row);
    SampleRow sample = samples_[at];
    distribution(verified.logits.subspan(at * vocabulary, vocabulary), {}, sample, scratch_,
                 target_distribution_, entry.draft.drafts.first(static_cast<std::size_t>(row)));
    const auto i = static_cast<std::size_t>(row);
    if (row == entry.draft.drafted) {
      emitted[i] = draw(target_distribution_, sampler.seed, sample.position, Stream::kTarget);
      return row;
    }
    const RejectionOutcome outcome = rejection_sample(target_distribution_, entry.proposal[i],
                                                      entry.draft.drafts[i], sampler.seed, sample.position);
    emitted[i] = outcome.token;
    if (!outcome.accepted) return row;
  }
  return entry.draft.drafted;
}

}  // namespace ft
