// What surrounds the round's page: the plan of each slot, prompts, endings and rejection sampling.
#include <algorithm>
#include <utility>

#include "drafters/guarded.h"
#include "sampling/rejection.h"
#include "speculation/round.h"

namespace ft {

Round::Round(Executable& target, State& state, int slots, const CapturedSet& captured, int max_depth,
             const ImageRows* images)
    : target_(target),
      state_(state),
      captured_(captured),
      images_(images),
      max_depth_(max_depth),
      entries_(static_cast<std::size_t>(slots)),
      batch_(slots),
      prospects_(static_cast<std::size_t>(slots)) {
  for (const CapturedRows* rows : captured_) ring_ = ring_ != nullptr ? ring_ : rows;
  scratch_.reserve(static_cast<std::size_t>(target.vocabulary()));
  round_tokens_.resize(static_cast<std::size_t>(slots) * static_cast<std::size_t>(max_depth));
  const auto rows = static_cast<std::size_t>(slots) * static_cast<std::size_t>(max_depth + 1);
  tokens_.reserve(rows), logit_rows_.reserve(rows), samples_.reserve(rows), captures_.reserve(rows);
  coordinates_.reserve(rows);
  segments_.reserve(static_cast<std::size_t>(slots));
  proposing_.reserve(static_cast<std::size_t>(slots));
  emitted_.reserve(static_cast<std::size_t>(max_depth) + 1);
}

Status Round::prefill(Slot& slot, int rows) {
  const std::int64_t done = slot.timeline->length();
  const int left = static_cast<int>(static_cast<std::int64_t>(slot.tokens.size()) - 1 - done);
  rows = std::min(rows, left);
  if (slot.on_prompt_row) rows = std::min(rows, static_cast<int>(entries_.size()) * (max_depth_ + 1));
  if (rows <= 0) return {};
  // A prompt's last rows stay on the tape, so that a snapshot can begin at any of them
  // (speculation/snapshot.h).
  if (rows > kMaxTapeRows + 1 && left > rows && left - rows <= kMaxTapeRows) rows = left - kMaxTapeRows - 1;
  const int confirmed = rows == left ? std::max(1, rows - kMaxTapeRows) : rows;
  FT_ASSIGN(Txn txn, slot.timeline->begin(rows, confirmed));
  const Segment segment = txn.segment();
  const auto chunk = std::span<const std::int32_t>(slot.tokens)
                         .subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(rows));
  logit_rows_.clear(), captures_.clear(), coordinates_.clear(), embeddings_.clear();
  capture_rows(slot, rows);
  if (!slot.positions.flat()) place_rows(slot, rows);
  for (int i = 0; !slot.positions.flat() && i < rows; ++i)
    embeddings_.push_back(images_->place(slot.id, slot.positions, done + i));
  for (int i = 0; slot.on_prompt_row && i < rows; ++i) logit_rows_.push_back(i);
  StepResult result;
  try {
    StepArgs args{chunk, {}, {&segment, 1}, logit_rows_, {}, {}};
    args.capture = capture_places();
    args.logits = !logit_rows_.empty();
    args.coordinates = coordinates_;
    if (!embeddings_.empty()) args.embeddings = {&images_->store(), embeddings_};
    target_.submit(args, state_);
    if (args.logits) result = target_.collect();
  } catch (...) {
    txn.rollback();
    throw;
  }
  txn.commit(rows);
  const auto vocabulary = static_cast<std::size_t>(target_.vocabulary());
  for (std::size_t i = 0; i < logit_rows_.size(); ++i) {
    slot.on_prompt_row(done + static_cast<std::int64_t>(i),
                       result.logits.subspan(i * vocabulary, vocabulary));
  }
  observe(slot, chunk, true);
  return {};
}

/// Shows committed rows to the slot's drafter; one that fails is not asked again, the answer does without.
void Round::observe(Slot& slot, std::span<const std::int32_t> tokens, bool prompt) {
  if (slot.drafter == nullptr) return;
  const Status seen = guarded([&] { return slot.drafter->observe(slot.id, tokens, prompt); });
  if (!seen.ok()) drop_drafter(slot, *slot.drafter);
}

/// A drafter that failed for this slot is not asked again; others that it has stay.
void Round::drop_drafter(Slot& slot, Drafter& failed) {
  slot.drafter_failed = true;
  if (&failed != slot.drafter && slot.drafter->drop_member(slot.id, failed)) return;
  slot.drafter->close(slot.id);
  slot.drafter = nullptr;
}

/// The next `rows` rows of the step are the slot's, from its timeline's end on: where a drafter finds them.
void Round::capture_rows(const Slot& slot, int rows) {
  if (ring_ == nullptr) return;
  const bool read = slot.drafter != nullptr && slot.drafter->reads_rows();
  for (int i = 0; i < rows; ++i) {
    captures_.push_back(read ? ring_->place(slot.id, slot.timeline->length() + i) : -1);
  }
}

CapturePlaces Round::capture_places() const {
  CapturePlaces to;
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    if (captured_[i] != nullptr) to.stores[i] = &captured_[i]->store();
  }
  if (ring_ != nullptr) to.places = captures_;
  return to;
}

/// Where those rows are on the axes of M-RoPE.
void Round::place_rows(const Slot& slot, int rows) {
  for (int i = 0; i < rows; ++i) coordinates_.push_back(slot.positions.at(slot.timeline->length() + i));
}

namespace {

double kilo_positions(const Slot& slot) { return static_cast<double>(slot.tokens.size()) / 1024; }

}  // namespace

/// The entry's drafts join the round.
void Round::note_plan(const Entry& entry, const CostModel& costs, RoundSoFar& others) {
  const int depth = entry.draft.depth;
  shape_.deepest = std::max(shape_.deepest, depth);
  if (entry.source != nullptr && depth > 0) {
    double& known = others.steps_of[static_cast<std::size_t>(entry.source->number())];
    const double more = std::max(0.0, costs.draft_steps(*entry.source, depth) - known);
    if (more > 0) shape_.drafter = others.draft_steps > known ? -1 : entry.source->number();
    known += more, others.draft_steps += more;
  }
  others.rows += depth;
  others.tokens += entry.jump_forward ? depth : entry.slot->policy.expected() - 1;
  others.read.drafts += depth * kilo_positions(*entry.slot);
  shape_.draft_steps = others.draft_steps;
  shape_.read = others.read;
}

void Round::plan(std::span<Slot* const> slots, const CostModel& costs, bool drafts) {
  active_ = 0;
  shape_ = {};
  worked_ = false;
  // Slots that are not planned yet count as one plain row each.
  RoundSoFar others;
  others.slots = static_cast<int>(slots.size());
  others.rows = others.slots - 1;
  others.tokens = others.slots - 1;
  for (const Slot* slot : slots) others.read.sequences += kilo_positions(*slot);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Entry& entry = entries_[i];
    prepare(entry, *slots[i], i);
    if (entry.allowed > 0 && (drafts || slots[i]->options.depth >= 0)) gather_offers(entry, costs);
  }
  together_ = drafts && slots.size() > 1;
  if (together_) plan_batch(slots, costs, others);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Entry& entry = entries_[active_];
    if (i != active_) {  // a slot before it is not part of the round
      entry.take_plan(entries_[i]);
      place_drafts(entry, active_);
    }
    RoundSoFar so_far = together_ ? batch_.others(i) : others;
    so_far.context = kilo_positions(*entry.slot);
    plan_depth(entry, costs, so_far);
    Result<Txn> txn = entry.slot->timeline->begin(1 + entry.draft.depth, 1);
    if (!txn.ok()) {
      entry.slot->finish = Finish::kError;
      entry.slot->error = txn.error();
      continue;
    }
    entry.txn.emplace(std::move(*txn));
    note_plan(entry, costs, others);
    ++active_;
  }
  shape_.slots = static_cast<int>(active_);
}

/// What drafters and the policy read of the slot.
void Round::prepare(Entry& entry, Slot& slot, std::size_t place) {
  entry.slot = &slot;
  entry.source = nullptr, entry.offer_count = 0, entry.jump_forward = false;
  DraftSlot& draft = entry.draft;
  draft = {};
  draft.id = slot.id;
  draft.tokens = slot.tokens;
  draft.prompt_tokens = slot.prompt_tokens;
  draft.predicted = slot.options.predicted;
  draft.owner = slot.options.owner;
  draft.sample.sampler = &slot.options.sampler;
  draft.sample.position = static_cast<std::int64_t>(slot.tokens.size());
  draft.sample.history = slot.history.counts();
  draft.sample.bias = slot.options.bias;
  draft.sample.mask = slot.options.mask;
  draft.rejection = slot.options.acceptance == Acceptance::kRejection;
  draft.constraint = slot.constraint.get();
  place_drafts(entry, place);
  const std::int64_t room = slot.options.context - static_cast<std::int64_t>(slot.tokens.size());
  const std::int64_t budget = slot.options.max_tokens - slot.output_tokens();
  entry.allowed = static_cast<int>(std::clamp<std::int64_t>(std::min(room, budget) - 1, 0, max_depth_));
}

/// Where the entry's drafts go in the round's token buffer.
void Round::place_drafts(Entry& entry, std::size_t place) {
  DraftSlot& draft = entry.draft;
  draft.proposal = &entry.proposal;
  draft.store = static_cast<std::int32_t>(place) * max_depth_;
  draft.drafts = std::span<std::int32_t>(round_tokens_)
                     .subspan(static_cast<std::size_t>(draft.store), static_cast<std::size_t>(max_depth_));
}

void Round::plan_batch(std::span<Slot* const> slots, const CostModel& costs, const RoundSoFar& plain) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Entry& entry = entries_[i];
    RoundSoFar others = plain;
    others.context = kilo_positions(*slots[i]);
    prospects_[i] = slots[i]->policy.prospects(costs, std::span(entry.offers).first(entry.offer_count),
                                               entry.allowed, others);
  }
  batch_.plan(costs, std::span(prospects_).first(slots.size()), plain.read);
}

void Round::plan_depth(Entry& entry, const CostModel& costs, const RoundSoFar& others) {
  Slot& slot = *entry.slot;
  DraftSlot& draft = entry.draft;
  if (entry.offer_count > 0) {
    const auto offers = std::span(entry.offers).first(entry.offer_count);
    draft.depth = slot.policy.choose(costs, offers, entry.allowed, others);
    entry.source = entry.offering[slot.policy.chosen()];
    entry.context_class = offers[slot.policy.chosen()].context_class;
  } else {
    draft.depth = slot.policy.choose_none();
  }
  entry.jump_forward = take_jump_forward(entry, entry.allowed);
  if (!slot.on_depth) return;
  slot.on_depth(entry.jump_forward ? "depth " + std::to_string(draft.depth) + ": the only tokens allowed"
                                   : slot.policy.explain());
}

namespace {

/// Where a depth is given, the first offer drafts: a long match, then networks, then what is left.
int rank(const Offer& offer) {
  constexpr int kLongMatch = 2;
  if (offer.drafter->draft_cost(1) > 0) return 1;
  return offer.context_class >= kLongMatch ? 0 : 2;
}

}  // namespace

/// What the slot's drafters could offer in this round.
void Round::gather_offers(Entry& entry, const CostModel& costs) {
  Slot& slot = *entry.slot;
  if (slot.drafter == nullptr) return;
  std::array<Drafter*, kMaxDrafters> asked{slot.drafter};
  std::size_t count = 1;
  if (const auto members = slot.drafter->members(slot.id); !members.empty()) {
    count = std::min(members.size(), asked.size());  // copied, because one that fails leaves the list
    std::copy_n(members.begin(), count, asked.begin());
  }
  for (Drafter* const drafter : std::span(asked).first(count)) {
    int found = 0;
    const Status planned = guarded([&]() -> Status {
      found = drafter->plan(entry.draft);
      return {};
    });
    if (!planned.ok()) drop_drafter(slot, *drafter);
    if (!planned.ok() || found <= 0) continue;
    const Offer offer{drafter, found, drafter->context_class(slot.id),
                      costs.weight(*drafter) * drafter->catch_up(entry.draft)};
    std::size_t at = entry.offer_count++;
    for (; at > 0 && rank(entry.offers[at - 1]) > rank(offer); --at)
      entry.offers[at] = entry.offers[at - 1], entry.offering[at] = entry.offering[at - 1];
    entry.offers[at] = offer, entry.offering[at] = drafter;
  }
}

/// Drafts what may come alone, if that is at least as deep as a drafter would go. A request that asked for no
/// drafts gets none.
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

/// The masks of the entry's rows. A draft before a row without one is not counted; without a mask for the
/// next token the answer ends with the reason.
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

void Round::work_meanwhile() {
  if (meanwhile_ && !std::exchange(worked_, true)) meanwhile_();
}

/// The slot emits nothing in this round, and its answer is over.
void Round::abandon(Entry& entry) {
  if (entry.txn) entry.txn->rollback();
  entry.txn.reset();
  entry.slot->finish = Finish::kError;
}

void Round::finish_if_over(Slot& slot, std::int32_t token) {
  if (slot.finish != Finish::kNone) return;
  const auto& eos = slot.options.eos;
  if (std::find(eos.begin(), eos.end(), token) != eos.end()) {
    slot.finish = Finish::kStop;
  } else if (slot.output_tokens() >= slot.options.max_tokens) {
    slot.finish = Finish::kLength;
  } else if (static_cast<std::int64_t>(slot.tokens.size()) >= slot.options.context) {
    slot.finish = Finish::kContext;
  }
}

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
