#include "drafters/mtp.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "drafters/chain_pass.h"

namespace ft {

Result<std::unique_ptr<MtpDrafter>> MtpDrafter::make(Backend& backend, const Program& program,
                                                     CapturedRows& captured, const Options& options) {
  CompileOptions compile;
  compile.max_rows = std::max(kPassRows, options.slots * (options.max_depth + 2)) + kPassRows * options.slots;
  compile.max_logit_rows = options.slots;
  const StateOptions memory{options.slots + options.memories, options.blocks};
  FT_ASSIGN(std::unique_ptr<Executable> head, backend.compile(program, compile));
  FT_ASSIGN(std::unique_ptr<State> state, backend.make_state(program.layout(), memory));
  const int fed_back = options.fed_back > 0 ? options.fed_back : options.hidden;
  FT_ASSIGN(std::unique_ptr<RowStore> chain, backend.make_rows(fed_back, 2 * options.slots));
  FT_ASSIGN(std::unique_ptr<RowStore> kept, backend.make_rows(options.hidden, memory.slots * kMemoryRows));
  std::string identity =
      fmt::format("{} {}\n{}", state->block_bytes(), state->slot_bytes(), to_text(program));
  if (options.features != nullptr) identity += to_text(*options.features);
  std::unique_ptr<MtpDrafter> made(new MtpDrafter(options, captured, std::move(head), std::move(state),
                                                  std::move(chain), std::move(kept), std::move(identity)));
  if (options.features != nullptr) FT_TRY(made->build_features(backend, compile));
  return made;
}

Status MtpDrafter::build_features(Backend& backend, const CompileOptions& compile) {
  FT_ASSIGN(features_, backend.compile(*options_.features, compile));
  const int width = options_.fed_back > 0 ? options_.fed_back : options_.hidden;
  FT_ASSIGN(feature_rows_, backend.make_rows(width, compile.max_rows));
  for (int row = 0; row < compile.max_rows; ++row) in_order_.push_back(row);
  return {};
}

MtpDrafter::MtpDrafter(Options options, CapturedRows& captured, std::unique_ptr<Executable> head,
                       std::unique_ptr<State> state, std::unique_ptr<RowStore> chain,
                       std::unique_ptr<RowStore> kept, std::string identity)
    : options_(options),
      identity_(std::move(identity)),
      captured_(captured),
      head_(std::move(head)),
      state_(std::move(state)),
      pool_(*state_, StateOptions{options.slots + options.memories, options.blocks}),
      chain_(std::move(chain)),
      memory_rows_(std::move(kept)),
      slots_(static_cast<std::size_t>(options.slots)),
      txns_(static_cast<std::size_t>(options.slots)),
      first_rows_(static_cast<std::size_t>(options.slots)) {
  scratch_.reserve(static_cast<std::size_t>(head_->vocabulary()));
  for (int area = options.slots + options.memories; area-- > 0;) free_areas_.push_back(area);
}

Status MtpDrafter::open(int slot, std::int64_t position) {
  close(slot);
  FT_ASSIGN(Timeline timeline, Timeline::open(pool_));
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline = std::move(timeline);
  state.timeline->reserve(options_.context + options_.max_depth + 1);
  state.tokens.reserve(kPendingRows + 1);
  state.first = state.seen = state.first_recent = state.skipped = position;
  return {};
}

void MtpDrafter::close(int slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline.reset();
  state.tokens.clear();
  state.first = state.seen = state.first_recent = state.skipped = 0;
  state.from_prompt = state.named = 0;
  state.boundary_paired = false;
  state.positions = nullptr;
}

Status MtpDrafter::observe(int slot_id, std::span<const std::int32_t> tokens, bool prompt) {
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  for (const std::int32_t token : tokens) {
    if (slot.seen > slot.first && !slot.boundary_paired) {
      slot.tokens.push_back(token);
      if (prompt) slot.from_prompt = slot.tokens.size();
    }
    slot.boundary_paired = false;
    ++slot.seen;
    if (static_cast<int>(slot.tokens.size()) < kPendingRows) continue;
    if (slot.from_prompt > 0) {
      FT_TRY(flush(slot_id, slot.tokens.size() - slot.from_prompt));
    } else {
      forget_oldest(slot, kPassRows);
      slot.skipped += kPassRows;
    }
  }
  return {};
}

/// Places of the captured rows rows_ that the next step reads, one for each of its tokens.
RowPlaces MtpDrafter::hidden_rows(std::span<const std::int32_t> tokens, std::span<const Segment> segments) {
  if (!features_) return {&captured_.store(), rows_};
  StepArgs args;
  args.tokens = tokens;
  args.hidden = {&captured_.store(), rows_};
  args.segments = segments;
  args.capture = {feature_rows_.get(), std::span(in_order_).first(tokens.size())};
  features_->submit(args, *state_);
  return {feature_rows_.get(), args.capture.places};
}

/// Passes without a draft, for their keys and values alone, until at most `most_left` pairs wait.
Status MtpDrafter::flush(int slot_id, std::size_t most_left) {
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  while (slot.tokens.size() > most_left) {
    const std::size_t rows = std::min<std::size_t>(kPassRows, slot.tokens.size() - most_left);
    rows_.clear(), coordinates_.clear(), embeddings_.clear();
    for (std::size_t i = 0; i < rows; ++i) {
      rows_.push_back(captured_.place(slot_id, slot.first_row() + static_cast<std::int64_t>(i)));
      add_pair(slot_id, static_cast<std::int64_t>(i), slot.positions != nullptr);
    }
    FT_ASSIGN(Txn txn, slot.timeline->begin(static_cast<int>(rows), static_cast<int>(rows)));
    const Segment segment = txn.segment();
    StepArgs args;
    args.tokens = std::span(slot.tokens).first(rows);
    args.segments = {&segment, 1};
    place_rows(args);
    try {
      args.hidden = hidden_rows(args.tokens, args.segments);
      head_->submit(args, *state_);
    } catch (...) {
      txn.rollback();
      throw;
    }
    txn.commit(static_cast<int>(rows));
    forget_oldest(slot, rows);
  }
  return {};
}

/// The place of the pair `place` rows after the slot's timeline, and the row that embeds its token, if some
/// sequence of the step has images. A pair has the position of its hidden row's token.
void MtpDrafter::add_pair(int slot_id, std::int64_t place, bool with_images) {
  if (!with_images) return;
  const SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  if (slot.positions == nullptr) {
    coordinates_.push_back(PositionMap::even(slot.timeline->length() + place));
    embeddings_.push_back(-1);
    return;
  }
  const std::int64_t row = slot.first_row() + place;
  coordinates_.push_back(slot.positions->at(row));
  embeddings_.push_back(options_.images->place(slot_id, *slot.positions, row + 1));
}

bool MtpDrafter::any_images(std::span<DraftSlot* const> slots) const {
  return std::ranges::any_of(slots, [this](const DraftSlot* slot) {
    return slots_[static_cast<std::size_t>(slot->id)].positions != nullptr;
  });
}

void MtpDrafter::place_rows(StepArgs& args) const {
  args.coordinates = coordinates_;
  if (!embeddings_.empty()) args.embeddings = {&options_.images->store(), embeddings_};
}

void MtpDrafter::forget_oldest(SlotState& slot, std::size_t pairs) {
  slot.tokens.erase(slot.tokens.begin(), slot.tokens.begin() + static_cast<std::ptrdiff_t>(pairs));
  slot.from_prompt -= std::min(slot.from_prompt, pairs);
}

int MtpDrafter::plan(const DraftSlot& slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  return state.timeline && !state.timeline->lost() && state.seen > state.first ? slot.max_depth() : 0;
}

/// Submits the prepared pass. Waits for it only if the host needs its drafts for a mask of the next pass, or
/// its logits for a distribution.
void MtpDrafter::submit(std::span<DraftSlot*> slots, int step, const RowPlaces& hidden,
                        std::span<std::int32_t> round_tokens) {
  StepArgs args;
  args.tokens = tokens_;
  args.hidden = hidden;
  args.segments = segments_;
  args.logit_rows = logit_rows_;
  args.samples = samples_;
  args.round_tokens = round_tokens;
  args.logits = false;
  place_rows(args);
  fed_back_.assign(tokens_.size(), -1);
  bool wait = false;
  std::size_t next = 0;
  for (DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    if (slot->depth > step + 1) {  // the next pass reads it
      fed_back_[static_cast<std::size_t>(logit_rows_[next])] = chain_place(slot->id, step);
      args.capture = {chain_.get(), fed_back_};
    }
    args.logits = args.logits || slot->rejection;
    wait = wait || slot->rejection || slot->constraint != nullptr;
    ++next;
  }
  submit_pass(*head_, args, *state_, slots, step, samples_);
  collected_ = wait;
  const StepResult result = wait ? head_->collect() : StepResult();
  take_drafts(slots, step, result, *head_, samples_, scratch_);
}

/// A text repeats its own words: a reduced MTP head gets columns for tokens of the text that it lacks.
void MtpDrafter::name_tokens(const DraftSlot& slot) {
  std::size_t& named = slots_[static_cast<std::size_t>(slot.id)].named;
  const std::size_t fresh = std::min(slot.tokens.size() - named, kMaxNamed);
  head_->add_draft_tokens(slot.tokens.last(fresh));
  named = slot.tokens.size();
}

Status MtpDrafter::first_pass(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  for (DraftSlot* slot : slots) {
    SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    if (!state.boundary_paired)
      state.tokens.push_back(slot->tokens.back());  // already paired if an earlier draft failed
    state.boundary_paired = true;
    slot->backlog_rows = std::max(0, static_cast<int>(state.tokens.size()) - (options_.max_depth + 1));
    FT_TRY(flush(slot->id, kPassRows));
  }
  tokens_.clear(), rows_.clear(), segments_.clear(), logit_rows_.clear(), samples_.clear();
  coordinates_.clear(), embeddings_.clear();
  const bool with_images = any_images(slots);
  for (DraftSlot* slot : slots) {
    const auto id = static_cast<std::size_t>(slot->id);
    SlotState& state = slots_[id];
    name_tokens(*slot);
    const int rows = static_cast<int>(state.tokens.size());
    for (int i = 0; i < rows; ++i) {
      rows_.push_back(captured_.place(slot->id, state.first_row() + i));
      add_pair(slot->id, i, with_images);
    }
    FT_ASSIGN(Txn txn, state.timeline->begin(rows + slot->depth - 1, rows));
    first_rows_[id] = rows;
    txns_[id].emplace(std::move(txn));
    segments_.push_back(txns_[id]->part(0, rows));
    tokens_.insert(tokens_.end(), state.tokens.begin(), state.tokens.end());
    logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()) - 1);
    samples_.push_back(chain_sample(*slot, 0));
    state.tokens.clear();
    state.from_prompt = 0;
  }
  submit(slots, 0, hidden_rows(tokens_, segments_), round_tokens);
  return {};
}

Status MtpDrafter::next_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens) {
  tokens_.clear(), rows_.clear(), segments_.clear(), logit_rows_.clear(), samples_.clear();
  coordinates_.clear(), embeddings_.clear();
  const bool with_images = any_images(slots);
  for (DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    const auto id = static_cast<std::size_t>(slot->id);
    add_pair(slot->id, first_rows_[id] + step - 1, with_images);
    segments_.push_back(txns_[id]->part(first_rows_[id] + step - 1, 1));
    logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back(-1 - (slot->store + step - 1));
    rows_.push_back(chain_place(slot->id, step - 1));
    samples_.push_back(chain_sample(*slot, step));
  }
  if (!tokens_.empty()) submit(slots, step, {chain_.get(), rows_}, round_tokens);
  return {};
}

/// Ends the transactions of a proposal: true pairs are kept, the chain is dropped.
void MtpDrafter::finish(std::span<DraftSlot*> slots, bool good) {
  for (DraftSlot* slot : slots) {
    const auto id = static_cast<std::size_t>(slot->id);
    if (!good) slot->drafted = 0;
    slot->known = collected_;
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
    for (int step = 1; status.ok() && step < options_.max_depth; ++step)
      status = next_pass(slots, step, round_tokens);
  } catch (...) {
    finish(slots, false);
    throw;
  }
  finish(slots, status.ok());
  return status;
}

}  // namespace ft
