// The plan of a round: the offers of each slot's drafters, the depth of each slot, and the slot's end.
#include <algorithm>
#include <utility>

#include "drafters/guarded.h"
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
    Result<Txn> txn = entry.slot->timeline->begin(1 + entry.draft.depth + room_after(entry), 1);
    if (!txn.ok()) {
      entry.slot->finish = Finish::kError;
      entry.slot->error = txn.error();
      continue;
    }
    entry.txn.emplace(std::move(*txn));
    entry.draft.target_blocks = entry.slot->timeline->blocks();
    entry.draft.target_rows = entry.slot->timeline->length();
    note_plan(entry, costs, others);
    ++active_;
  }
  shape_.slots = static_cast<int>(active_);
}

/// Fills the fields that drafters and the policy read of the slot.
void Round::prepare(Entry& entry, Slot& slot, std::size_t place) {
  entry.slot = &slot;
  entry.source = entry.text = nullptr, entry.offer_count = 0, entry.jump_forward = false;
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
  const bool masked = slot.constraint && slot.constraint->free_rows({}) == 0;
  draft.constraint = masked ? slot.constraint.get() : nullptr;
  place_drafts(entry, place);
  const std::int64_t room = slot.options.context - static_cast<std::int64_t>(slot.tokens.size());
  const std::int64_t budget = slot.options.max_tokens - slot.output_tokens();
  entry.allowed = static_cast<int>(std::clamp<std::int64_t>(std::min(room, budget) - 1, 0, max_depth_));
}

/// Gives the entry its places in the round's token buffer.
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

/// Order of offers where the depth is given, so that the first one drafts: long matches, networks, the rest.
int rank(const Offer& offer) {
  constexpr int kLongMatch = 2;
  if (offer.drafter->draft_cost(1) > 0) return 1;
  return offer.context_class >= kLongMatch ? 0 : 2;
}

}  // namespace

/// Asks the slot's drafters for their offers in this round.
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

}  // namespace ft
