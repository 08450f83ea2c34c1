#include "drafters/draft_model.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "drafters/chain_pass.h"

namespace ft {
namespace {

/// A fork of each slot lives for the length of a proposal.
StateOptions memory_of(const ModelDrafter::Options& options) {
  const int partly_filled = options.slots;  // a fork copies the last block
  return {2 * options.slots + options.memories, options.blocks + 2 * partly_filled, true};
}

}  // namespace

Result<std::unique_ptr<ModelDrafter>> ModelDrafter::make(Backend& backend, const DraftNetwork& network,
                                                         const Options& options) {
  CompileOptions compile;
  compile.max_rows = std::max(kChunk, options.slots * (options.max_depth + 2));
  compile.max_logit_rows = options.slots;
  FT_ASSIGN(std::unique_ptr<Executable> executable, backend.compile(network.programs[0], compile));
  FT_ASSIGN(std::unique_ptr<State> state,
            backend.make_state(network.programs[0].layout(), memory_of(options)));
  return std::unique_ptr<ModelDrafter>(
      new ModelDrafter(network, options, std::move(executable), std::move(state)));
}

ModelDrafter::ModelDrafter(const DraftNetwork& network, const Options& options,
                           std::unique_ptr<Executable> executable, std::unique_ptr<State> state)
    : model_(network),
      options_(options),
      network_(std::move(executable)),
      state_(std::move(state)),
      pool_(*state_, memory_of(options)),
      slots_(static_cast<std::size_t>(options.slots)) {
  identity_ =
      fmt::format("{} {}\n{}", state_->block_bytes(), state_->slot_bytes(), to_text(network.programs[0]));
  scratch_.reserve(static_cast<std::size_t>(network_->vocabulary()));
  txns_.reserve(static_cast<std::size_t>(options.slots));
}

Status ModelDrafter::open(int slot, std::int64_t position) {
  close(slot);
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  FT_TRY(make_timelines(state));
  state.seen = position;
  return {};
}

/// Empty ones, with room for the whole context.
Status ModelDrafter::make_timelines(SlotState& slot) {
  for (std::optional<Timeline>* const made : {&slot.timeline, &slot.chain}) {
    Result<Timeline> opened = Timeline::open(pool_);
    if (!opened.ok()) {
      slot.timeline.reset();
      return opened.error();
    }
    *made = std::move(*opened);
    (*made)->reserve(options_.context + 2 * (options_.max_depth + 1));
  }
  return {};
}

Status ModelDrafter::knows(std::span<const std::int32_t> tokens) const {
  if (std::ranges::all_of(tokens, [this](std::int32_t id) { return id < model_.vocabulary; })) return {};
  return Error{Code::kInvalid, "the text has a token that the draft model lacks"};
}

void ModelDrafter::close(int slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.chain.reset();
  state.timeline.reset();
  state.pending.clear();
  state.seen = 0;
}

/// Reads tokens of a prompt at once if none before them is missing.
Status ModelDrafter::observe(int slot_id, std::span<const std::int32_t> tokens, bool prompt) {
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  const bool whole = slot.timeline->length() + std::ssize(slot.pending) == slot.seen;
  slot.seen += std::ssize(tokens);
  if (!prompt || !whole) {
    slot.pending.clear();  // propose() is given all tokens
    return {};
  }
  slot.pending.insert(slot.pending.end(), tokens.begin(), tokens.end());
  if (std::ssize(slot.pending) <= kKeptBack) return {};
  const std::size_t count = slot.pending.size() - kKeptBack;
  FT_TRY(take_in(slot, std::span(slot.pending).first(count)));
  slot.pending.erase(slot.pending.begin(), slot.pending.begin() + static_cast<std::ptrdiff_t>(count));
  return {};
}

/// Appends committed tokens; nothing is drafted after them yet.
Status ModelDrafter::take_in(SlotState& slot, std::span<const std::int32_t> tokens) {
  for (; !tokens.empty();) {
    const auto chunk = tokens.first(std::min<std::size_t>(tokens.size(), kChunk));
    tokens = tokens.subspan(chunk.size());
    FT_TRY(knows(chunk));
    const auto rows = static_cast<int>(chunk.size());
    FT_ASSIGN(Txn txn, slot.timeline->begin(rows, rows));
    const Segment segment = txn.segment();
    StepArgs args;
    args.tokens = chunk;
    args.segments = {&segment, 1};
    args.logits = false;
    try {
      network_->submit(args, *state_);
    } catch (...) {
      txn.rollback();
      throw;
    }
    txn.commit(rows);
  }
  return {};
}

int ModelDrafter::plan(const DraftSlot& slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  if (!state.timeline || state.timeline->lost()) return 0;
  const std::int64_t room = model_.context - std::ssize(slot.tokens);
  return static_cast<int>(std::clamp<std::int64_t>(room, 0, slot.max_depth()));
}

/// Many rows of a prompt cost less than the same number of passes.
double ModelDrafter::catch_up(const DraftSlot& slot) const {
  constexpr double kRow = 0.1;  // of a pass
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  if (!state.timeline) return 0;
  const std::int64_t missing = std::ssize(slot.tokens) - state.timeline->length();
  return kRow * static_cast<double>(std::max<std::int64_t>(0, missing - options_.max_depth));
}

Status ModelDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  Status status;
  try {
    status = first_pass(slots, round_tokens);
    for (int step = 1; status.ok() && step < options_.max_depth; ++step)
      status = next_pass(slots, step, round_tokens);
  } catch (...) {
    end_pass(false);
    finish(slots, false);
    throw;
  }
  if (!status.ok()) end_pass(false);
  finish(slots, status.ok());
  return status;
}

/// The missing tokens up to the pending one, then the first draft.
Status ModelDrafter::first_pass(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  tokens_.clear(), logit_rows_.clear(), segments_.clear(), samples_.clear();
  for (DraftSlot* slot : slots) {
    SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    state.pending.clear();
    if (state.timeline->length() >= std::ssize(slot->tokens))
      return Error{Code::kInvalid, "the draft model is ahead of its text"};
    auto missing = slot->tokens.subspan(static_cast<std::size_t>(state.timeline->length()));
    const std::size_t last =
        std::min<std::size_t>(missing.size(), static_cast<std::size_t>(options_.max_depth) + 1);
    slot->backlog_rows = static_cast<int>(missing.size() - last);
    FT_TRY(take_in(state, missing.first(missing.size() - last)));
    missing = missing.last(last);
    FT_TRY(knows(missing));
    FT_TRY(add(*slot, *state.timeline, missing, 0));
  }
  return run_pass(slots, 0, round_tokens);
}

Status ModelDrafter::next_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens) {
  tokens_.clear(), logit_rows_.clear(), segments_.clear(), samples_.clear();
  for (DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    if (step == 1) FT_TRY(state.timeline->fork_into(*state.chain, state.timeline->length()));
    const std::int32_t draft = -1 - (slot->store + step - 1);
    FT_TRY(add(*slot, *state.chain, {&draft, 1}, step));
  }
  return tokens_.empty() ? Status() : run_pass(slots, step, round_tokens);
}

/// Rows of one slot in the prepared pass; the last one drafts.
Status ModelDrafter::add(DraftSlot& slot, Timeline& timeline, std::span<const std::int32_t> tokens,
                         int step) {
  const auto rows = static_cast<int>(tokens.size());
  FT_ASSIGN(Txn txn, timeline.begin(rows, rows));
  txns_.push_back(std::move(txn));
  segments_.push_back(txns_.back().segment());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()) - 1);
  samples_.push_back(chain_sample(slot, step));
  return {};
}

/// Submits the prepared pass. Waits for it only if the host needs its drafts for a mask of the next pass, or
/// its logits for a distribution.
Status ModelDrafter::run_pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens) {
  StepArgs args;
  args.tokens = tokens_;
  args.segments = segments_;
  args.logit_rows = logit_rows_;
  args.samples = samples_;
  args.round_tokens = round_tokens;
  args.logits = false;
  bool wait = false;
  for (const DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    args.logits = args.logits || slot->rejection;
    wait = wait || slot->rejection || slot->constraint != nullptr;
  }
  submit_pass(*network_, args, *state_, slots, step, samples_);
  collected_ = wait;
  const StepResult result = wait ? network_->collect() : StepResult();
  end_pass(true);
  take_drafts(slots, step, result, *network_, samples_, scratch_);
  return {};
}

void ModelDrafter::end_pass(bool good) {
  for (Txn& txn : txns_) {
    if (good) {
      txn.commit(txn.rows());
    } else {
      txn.rollback();
    }
  }
  txns_.clear();
}

void ModelDrafter::finish(std::span<DraftSlot*> slots, bool good) {
  for (DraftSlot* slot : slots) {
    slots_[static_cast<std::size_t>(slot->id)].chain->clear();
    if (!good) slot->drafted = 0;
    slot->known = collected_ || !good;
  }
}

/// A timeline of the first tokens; the tokens after those are in the text.
struct ModelDrafter::Memory final : DraftMemory {
  Memory(int drafter, Timeline saved) : number(drafter), timeline(std::move(saved)) {}
  int drafter() const override { return number; }
  std::int64_t low() const override { return std::max<std::int64_t>(1, timeline.min_fork_length()); }
  std::int64_t bytes() const override { return 0; }
  std::span<const std::int32_t> blocks() const override { return timeline.blocks(); }
  bool write_to(ByteSink& sink) const override { return timeline.write_to(sink, {kind_of(number), 0}); }
  static std::string kind_of(int drafter) { return fmt::format("draft {}", drafter); }

  int number;
  Timeline timeline;
};

Result<std::unique_ptr<DraftMemory>> ModelDrafter::save(int slot_id) {
  const SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  // Tokens that it read beyond the committed ones cannot be removed again.
  if (!slot.timeline || slot.timeline->lost() || slot.timeline->length() > slot.seen)
    return std::unique_ptr<DraftMemory>();
  FT_ASSIGN(Timeline timeline, slot.timeline->fork());
  return std::unique_ptr<DraftMemory>(std::make_unique<Memory>(number(), std::move(timeline)));
}

Status ModelDrafter::restore(int slot_id, const DraftMemory& saved, std::int64_t length) {
  const auto& memory = static_cast<const Memory&>(*saved.part(number()));
  FT_ASSERT(length >= memory.low());
  close(slot_id);
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  FT_TRY(make_timelines(slot));
  FT_TRY(memory.timeline.fork_into(*slot.timeline, std::min(length, memory.timeline.length())));
  slot.seen = length;
  return {};
}

Result<std::unique_ptr<DraftMemory>> ModelDrafter::read_memory(ByteSource& source, std::int64_t length) {
  FT_ASSIGN(Timeline timeline, Timeline::read_from(pool_, source, {Memory::kind_of(number()), 0}));
  if (timeline.length() > length)
    return Error{Code::kCorrupt, "its bytes are not the state of a draft model"};
  return std::unique_ptr<DraftMemory>(std::make_unique<Memory>(number(), std::move(timeline)));
}

}  // namespace ft
