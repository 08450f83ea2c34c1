#include "drafters/mtp.h"

#include <algorithm>
#include <utility>

namespace ft {

Result<std::unique_ptr<MtpDrafter>> MtpDrafter::make(Backend& backend, const Program& program,
                                                     const Options& options) {
  CompileOptions compile;
  compile.max_rows = std::max(kPassRows, options.slots * (kMaxDepth + 2)) + kPassRows * options.slots;
  compile.max_wanted = options.slots;
  FT_ASSIGN(std::unique_ptr<Executable> head, backend.compile(program, compile));
  FT_ASSIGN(
      std::unique_ptr<State> state,
      backend.make_state(program.layout(), StateOptions{options.slots + options.memories, options.blocks}));
  return std::unique_ptr<MtpDrafter>(new MtpDrafter(options, std::move(head), std::move(state)));
}

MtpDrafter::MtpDrafter(Options options, std::unique_ptr<Executable> head, std::unique_ptr<State> state)
    : options_(options),
      head_(std::move(head)),
      state_(std::move(state)),
      pool_(*state_, StateOptions{options.slots + options.memories, options.blocks}),
      slots_(static_cast<std::size_t>(options.slots)),
      txns_(static_cast<std::size_t>(options.slots)),
      first_rows_(static_cast<std::size_t>(options.slots)) {
  scratch_.reserve(static_cast<std::size_t>(head_->vocabulary()));
}

Status MtpDrafter::open(int slot) {
  close(slot);
  FT_ASSIGN(Timeline timeline, Timeline::open(pool_));
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline = std::move(timeline);
  state.recent.resize(kRecentRows * static_cast<std::size_t>(options_.hidden));
  return {};
}

void MtpDrafter::close(int slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline.reset();
  state.tokens.clear();
  state.hidden.clear();
  state.seen = state.first_recent = state.skipped = 0;
  state.from_prompt = state.named = 0;
  state.boundary_paired = false;
}

std::span<float> MtpDrafter::recent_row(SlotState& slot, std::int64_t token) const {
  const auto width = static_cast<std::size_t>(options_.hidden);
  return std::span(slot.recent).subspan(static_cast<std::size_t>(token % kRecentRows) * width, width);
}

void MtpDrafter::add_pair(SlotState& slot, std::int32_t token) {
  const std::span<const float> boundary = recent_row(slot, slot.seen - 1);
  slot.tokens.push_back(token);
  slot.hidden.insert(slot.hidden.end(), boundary.begin(), boundary.end());
}

Status MtpDrafter::observe(int slot_id, std::span<const std::int32_t> tokens, std::span<const float> hidden,
                           bool prompt) {
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  const auto width = static_cast<std::size_t>(options_.hidden);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (slot.seen > 0 && !slot.boundary_paired) {
      add_pair(slot, tokens[i]);
      if (prompt) slot.from_prompt = slot.tokens.size();
    }
    slot.boundary_paired = false;
    std::ranges::copy(hidden.subspan(i * width, width), recent_row(slot, slot.seen++).begin());
    if (static_cast<int>(slot.tokens.size()) < kPendingRows) continue;
    if (slot.from_prompt > 0) {
      FT_TRY(flush(slot, slot.tokens.size() - slot.from_prompt));
    } else {
      forget_oldest(slot, kPassRows);
      slot.skipped += kPassRows;
    }
  }
  return {};
}

/// Passes without a draft, of which only the keys and values matter, until at most so many pairs wait.
Status MtpDrafter::flush(SlotState& slot, std::size_t most_left) {
  const auto width = static_cast<std::size_t>(options_.hidden);
  while (slot.tokens.size() > most_left) {
    const std::size_t rows = std::min<std::size_t>(kPassRows, slot.tokens.size() - most_left);
    FT_ASSIGN(Txn txn, slot.timeline->begin(static_cast<int>(rows), static_cast<int>(rows)));
    const Segment segment = txn.segment();
    StepArgs args;
    args.tokens = std::span(slot.tokens).first(rows);
    args.hidden = std::span(slot.hidden).first(rows * width);
    args.segments = {&segment, 1};
    try {
      head_->run(args, *state_);
    } catch (...) {
      txn.rollback();
      throw;
    }
    txn.commit(static_cast<int>(rows));
    forget_oldest(slot, rows);
  }
  return {};
}

void MtpDrafter::forget_oldest(SlotState& slot, std::size_t pairs) const {
  slot.tokens.erase(slot.tokens.begin(), slot.tokens.begin() + static_cast<std::ptrdiff_t>(pairs));
  slot.hidden.erase(slot.hidden.begin(),
                    slot.hidden.begin() + static_cast<std::ptrdiff_t>(pairs) * options_.hidden);
  slot.from_prompt -= std::min(slot.from_prompt, pairs);
}

int MtpDrafter::plan(const DraftSlot& slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  return state.timeline && !state.timeline->lost() && state.seen > 0 ? kMaxDepth : 0;
}

SelectRow MtpDrafter::select_row(const DraftSlot& slot, int step) const {
  SelectRow row = slot.select;
  row.position += step;
  row.stream = slot.ratio ? Stream::kDraft : Stream::kTarget;
  row.drafts = slot.drafts.first(static_cast<std::size_t>(step));
  row.store = slot.store + step;
  if (slot.constraint != nullptr && step > 0) {
    row.mask = slot.constraint->mask(row.drafts).value_or(row.mask);  // without one: the round cuts here
  }
  return row;
}

/// Runs the prepared step, keeps the rows to feed back in hidden_ (one a slot) and the distributions if asked
/// for.
void MtpDrafter::run(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens) {
  StepArgs args;
  args.tokens = tokens_;
  args.hidden = hidden_;
  args.segments = segments_;
  args.wanted = wanted_;
  args.selects = selects_;
  args.round_tokens = round_tokens;
  const StepResult result = head_->run(args, *state_);
  const auto width = static_cast<std::size_t>(options_.hidden);
  const auto vocabulary = static_cast<std::size_t>(head_->vocabulary());
  hidden_.clear();
  std::size_t next = 0;
  for (DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    const auto row = result.tap.subspan(static_cast<std::size_t>(wanted_[next]) * width, width);
    hidden_.insert(hidden_.end(), row.begin(), row.end());
    if (slot->ratio) {
      distribution(result.logits.subspan(next * vocabulary, vocabulary), head_->ids(), selects_[next],
                   scratch_, (*slot->proposal)[static_cast<std::size_t>(step)]);
    }
    slot->drafted = step + 1;
    ++next;
  }
}

/// A text repeats its own words: a reduced head gets columns for those that it lacks.
void MtpDrafter::name_tokens(const DraftSlot& slot) {
  std::size_t& named = slots_[static_cast<std::size_t>(slot.id)].named;
  const std::size_t fresh = std::min(slot.tokens.size() - named, kMaxNamed);
  head_->add_ids(slot.tokens.last(fresh));
  named = slot.tokens.size();
}

Status MtpDrafter::first_pass(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  tokens_.clear(), hidden_.clear(), segments_.clear(), wanted_.clear(), selects_.clear();
  for (DraftSlot* slot : slots) {
    SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    name_tokens(*slot);
    if (!state.boundary_paired) add_pair(state, slot->tokens.back());  // it is, after a draft that failed
    state.boundary_paired = true;
    slot->late_rows = std::max(0, static_cast<int>(state.tokens.size()) - (kMaxDepth + 1));
    FT_TRY(flush(state, kPassRows));
    const int rows = static_cast<int>(state.tokens.size());
    FT_ASSIGN(Txn txn, state.timeline->begin(rows + slot->depth - 1, rows));
    first_rows_[static_cast<std::size_t>(slot->id)] = rows;
    txns_[static_cast<std::size_t>(slot->id)].emplace(std::move(txn));
    segments_.push_back(txns_[static_cast<std::size_t>(slot->id)]->part(0, rows));
    tokens_.insert(tokens_.end(), state.tokens.begin(), state.tokens.end());
    hidden_.insert(hidden_.end(), state.hidden.begin(), state.hidden.end());
    wanted_.push_back(static_cast<std::int32_t>(tokens_.size()) - 1);
    selects_.push_back(select_row(*slot, 0));
    state.tokens.clear();
    state.hidden.clear();
    state.from_prompt = 0;
  }
  run(slots, 0, round_tokens);
  return {};
}

Status MtpDrafter::next_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens) {
  const auto width = static_cast<std::size_t>(options_.hidden);
  std::size_t previous = 0;
  std::size_t kept = 0;
  tokens_.clear(), segments_.clear(), wanted_.clear(), selects_.clear();
  for (DraftSlot* slot : slots) {
    if (slot->depth < step) continue;  // had no row in the step before
    if (slot->depth > step) {
      const auto id = static_cast<std::size_t>(slot->id);
      segments_.push_back(txns_[id]->part(first_rows_[id] + step - 1, 1));
      wanted_.push_back(static_cast<std::int32_t>(tokens_.size()));
      tokens_.push_back(-1 - (slot->store + step - 1));
      selects_.push_back(select_row(*slot, step));
      std::copy_n(hidden_.begin() + static_cast<std::ptrdiff_t>(previous * width), width,
                  hidden_.begin() + static_cast<std::ptrdiff_t>(kept * width));
      ++kept;
    }
    ++previous;
  }
  hidden_.resize(kept * width);
  if (kept > 0) run(slots, step, round_tokens);
  return {};
}

/// Ends the transactions of a proposal: true pairs stay, the chain goes.
void MtpDrafter::finish(std::span<DraftSlot*> slots, bool good) {
  for (DraftSlot* slot : slots) {
    const auto id = static_cast<std::size_t>(slot->id);
    if (!good) slot->drafted = 0;
    if (!txns_[id]) continue;
    if (good) {
      txns_[id]->commit(first_rows_[id]);
    } else {
      txns_[id]->rollback();
    }
    txns_[id].reset();
  }
}

Status MtpDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  Status status;
  try {
    status = first_pass(slots, round_tokens);
    for (int step = 1; status.ok() && step < kMaxDepth; ++step) status = next_pass(slots, step, round_tokens);
  } catch (...) {
    finish(slots, false);
    throw;
  }
  finish(slots, status.ok());
  return status;
}

}  // namespace ft
