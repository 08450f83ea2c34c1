#include "speculation/round.h"

#include "drafters/guarded.h"
#include "program/late_masks.h"
#include "sampling/rejection.h"
#include "speculation/accept.h"

namespace ft {

RoundShape Round::run(std::span<Slot* const> slots, const CostModel& costs, bool drafts) {
  plan(slots, costs, drafts);
  if (active_ == 0) return shape_;
  try {
    propose(costs);
    const StepResult verified = verify();
    int emitted = 0;
    for (std::size_t i = 0; i < active_; ++i) {
      Entry& entry = entries_[i];
      if (entry.slot->finish == Finish::kError) {  // no mask for its next token
        abandon(entry);
        continue;
      }
      const int keep = emit(entry, verified);
      commit(entry, keep);
      emitted += keep;
    }
    if (together_) batch_.ended(costs, shape_.rows, shape_.draft_steps, emitted);
  } catch (...) {  // the backend failed: these slots are lost, and the caller reports it
    for (std::size_t i = 0; i < active_; ++i) abandon(entries_[i]);
    throw;
  }
  return shape_;
}

void Round::propose(const CostModel& costs) {
  // Slots that share a drafter are drafted together, so that a network runs once for all of them.
  for (std::size_t i = 0; i < active_; ++i) {
    Drafter* drafter = entries_[i].drafter();
    proposing_.clear();
    for (std::size_t j = 0; j < active_ && drafter != nullptr; ++j) {
      if (entries_[j].drafter() != drafter) continue;
      if (j < i) break;  // done with the first slot of this drafter
      proposing_.push_back(&entries_[j].draft);
    }
    if (proposing_.empty()) continue;
    const Status status = guarded([&] { return drafter->propose(proposing_, round_tokens_); });
    for (std::size_t j = i; !status.ok() && j < active_; ++j) {  // plain decoding needs no draft
      if (entries_[j].drafter() == drafter) entries_[j].abandon_drafts();
    }
  }
  for (std::size_t i = 0; i < active_; ++i) {
    Entry& entry = entries_[i];
    shape_.backlog_rows += entry.draft.backlog_rows;
    continue_drafts(entry, costs);
    if (entry.draft.constraint != nullptr && !entry.draft.known) {
      work_meanwhile();
      entry.drafter()->collect();
    }
    keep_allowed(entry);
  }
}

StepResult Round::verify() {
  tokens_.clear(), logit_rows_.clear(), segments_.clear(), samples_.clear(), captures_.clear();
  coordinates_.clear();
  bool logits = false, images = false, masked = false;
  for (std::size_t i = 0; i < active_; ++i) images = images || !entries_[i].slot->positions.flat();
  for (std::size_t i = 0; i < active_; ++i) {
    Entry& entry = entries_[i];
    entry.first_row = static_cast<int>(tokens_.size());
    segments_.push_back(entry.txn->part(0, 1 + entry.draft.drafted));
    capture_rows(*entry.slot, 1 + entry.draft.drafted);
    if (images) place_rows(*entry.slot, 1 + entry.draft.drafted);
    logits = logits || entry.reads_logits();
    masked = masked || entry.draft.constraint != nullptr;
    tokens_.push_back(entry.slot->tokens.back());
    for (int d = 0; d < entry.draft.drafted; ++d) {
      const auto at = static_cast<std::size_t>(d);
      tokens_.push_back(entry.draft.known ? entry.draft.drafts[at] : -1 - (entry.draft.store + d));
    }
    for (int row = 0; row <= entry.draft.drafted; ++row) {
      logit_rows_.push_back(entry.first_row + row);
      SampleRow sample = entry.draft.sample;
      sample.position += row;
      sample.drafts = {-1, row};
      samples_.push_back(sample);
    }
  }
  shape_.rows = static_cast<int>(tokens_.size());
  StepArgs args{tokens_, {}, segments_, logit_rows_, samples_, round_tokens_};
  args.capture = capture_places();
  args.logits = logits;
  args.coordinates = coordinates_;
  submit_with_masks(target_, args, state_, masked, [this] {
    for (std::size_t i = 0; i < active_; ++i) add_masks(entries_[i]);
  });
  work_meanwhile();
  const StepResult verified = target_.collect();  // from here on the host has all drafts
  shape_.device_ms = static_cast<double>(verified.waited_ns) * 1e-6;
  return verified;
}

/// The first of the emitted rows: all of them, unless the constraint has a mask for one and took no part.
int Round::rows_kept(const Entry& entry, int rows) const {
  const Slot& slot = *entry.slot;
  if (!slot.constraint || entry.draft.constraint != nullptr) return rows;
  const auto between = std::span(emitted_).first(static_cast<std::size_t>(rows) - 1);
  return static_cast<int>(slot.constraint->free_rows(between));
}

int Round::emit(Entry& entry, const StepResult& verified) {
  Slot& slot = *entry.slot;
  const auto drafted = static_cast<std::size_t>(entry.draft.drafted);
  const auto sampled = verified.sampled.subspan(static_cast<std::size_t>(entry.first_row), drafted + 1);
  emitted_.assign(sampled.begin(), sampled.end());
  const int accepted = slot.options.acceptance == Acceptance::kRejection
                           ? accept_by_rejection(entry, verified, emitted_)
                           : accept(entry.draft.drafts.first(drafted), sampled);
  const auto vocabulary = static_cast<std::size_t>(target_.vocabulary());
  const int rows = rows_kept(entry, accepted + 1);
  int keep = 0;
  while (keep < rows && slot.finish == Finish::kNone) {
    const auto row = static_cast<std::size_t>(entry.first_row + keep);
    const std::int32_t token = emitted_[static_cast<std::size_t>(keep++)];
    slot.tokens.push_back(token);
    slot.history.add_output(token);
    std::span<const float> logits;
    if (slot.options.logprobs >= 0) logits = verified.logits.subspan(row * vocabulary, vocabulary);
    const std::string_view by = keep <= accepted ? entry.author(keep - 1) : std::string_view();
    if (slot.on_token && slot.on_token(token, logits, by) && slot.finish == Finish::kNone) {
      slot.finish = Finish::kStop;
    }
    finish_if_over(slot, token);
  }
  const int counted = std::min(accepted, keep);  // nothing after the end counts
  for (int i = 0; i < entry.draft.drafted; ++i) ++slot.report.drafted_at[static_cast<std::size_t>(i)];
  for (int i = 0; i < counted; ++i) ++slot.report.accepted_at[static_cast<std::size_t>(i)];
  slot.report.rounds += 1;
  slot.report.drafted += entry.draft.drafted;
  slot.report.accepted += counted;
  slot.report.emitted += keep;
  if (entry.source != nullptr && entry.draft.drafted > 0) note_drafts(entry, accepted, counted);
  return keep;
}

void Round::commit(Entry& entry, int keep) {
  Slot& slot = *entry.slot;
  entry.txn->commit(keep);
  entry.txn.reset();
  if (slot.constraint) {
    slot.constraint->commit(std::span<const std::int32_t>(slot.tokens).last(static_cast<std::size_t>(keep)));
  }
  const std::size_t first = slot.tokens.size() - static_cast<std::size_t>(keep) - 1;
  observe(slot, std::span<const std::int32_t>(slot.tokens).subspan(first, static_cast<std::size_t>(keep)),
          false);
}

}  // namespace ft
