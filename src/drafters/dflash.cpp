#include "drafters/dflash.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace ft {
namespace {

/// True if a draft of this slot depends on the drafts before it.
bool one_by_one(const DraftSlot& slot) {
  const SamplingParams& sampler = *slot.sample.sampler;
  return slot.rejection || slot.constraint != nullptr || sampler.repetition != 1 || sampler.presence != 0 ||
         sampler.frequency != 0;
}

}  // namespace

Result<std::unique_ptr<DflashDrafter>> DflashDrafter::make(Backend& backend, const DraftNetwork& network,
                                                           CapturedRows& captured, const Options& options) {
  const StateOptions memory{options.slots + options.memories, options.blocks};
  CompileOptions compile;
  compile.max_rows = options.slots * kPendingRows;
  compile.max_logit_rows = 0;
  FT_ASSIGN(std::unique_ptr<Executable> context, backend.compile(network.programs[0], compile));
  compile.max_rows = options.slots * (options.max_depth + 1);
  compile.max_logit_rows = options.slots * options.max_depth;
  FT_ASSIGN(std::unique_ptr<Executable> block, backend.compile(network.programs[1], compile));
  FT_ASSIGN(std::unique_ptr<State> state, backend.make_state(network.programs[1].layout(), memory));
  return std::unique_ptr<DflashDrafter>(
      new DflashDrafter(network, options, captured, std::move(context), std::move(block), std::move(state)));
}

DflashDrafter::DflashDrafter(const DraftNetwork& network, const Options& options, CapturedRows& captured,
                             std::unique_ptr<Executable> context, std::unique_ptr<Executable> block,
                             std::unique_ptr<State> state)
    : network_(network),
      options_(options),
      captured_(captured),
      context_(std::move(context)),
      block_(std::move(block)),
      state_(std::move(state)),
      pool_(*state_, StateOptions{options.slots + options.memories, options.blocks}),
      slots_(static_cast<std::size_t>(options.slots)),
      txns_(static_cast<std::size_t>(options.slots)),
      biases_(static_cast<std::size_t>(options.slots)) {
  for (const Instruction& instruction : network.programs[1].instructions())
    walks_ = walks_ || std::holds_alternative<Walk>(instruction);
  identity_ = fmt::format("{} {}\n{}", state_->block_bytes(), to_text(network.programs[0]),
                          to_text(network.programs[1]));
  scratch_.reserve(static_cast<std::size_t>(block_->vocabulary()));
}

Status DflashDrafter::open(int slot, std::int64_t position) {
  close(slot);
  FT_ASSIGN(Timeline timeline, Timeline::open(pool_));
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline = std::move(timeline);
  state.timeline->reserve(options_.context + options_.max_depth + 1);
  state.first = state.seen = position;
  return {};
}

void DflashDrafter::close(int slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.timeline.reset();
  state.first = state.seen = 0;
}

Status DflashDrafter::observe(int slot_id, std::span<const std::int32_t> tokens, bool /*prompt*/) {
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  slot.seen += std::ssize(tokens);
  while (slot.pending() >= kPendingRows) FT_TRY(take_in({&slot_id, 1}));
  return {};
}

/// One pass over the waiting rows, at most kPendingRows of each slot.
Status DflashDrafter::take_in(std::span<const int> slots) {
  rows_.clear(), tokens_.clear(), segments_.clear();
  const auto end = [&](bool good) {
    for (const int id : slots) {
      std::optional<Txn>& txn = txns_[static_cast<std::size_t>(id)];
      if (!txn) continue;
      good ? txn->commit(txn->rows()) : txn->rollback();
      txn.reset();
    }
  };
  for (const int id : slots) {
    SlotState& slot = slots_[static_cast<std::size_t>(id)];
    const auto rows = static_cast<int>(std::min<std::int64_t>(slot.pending(), kPendingRows));
    if (rows == 0) continue;
    const std::int64_t from = slot.first + slot.timeline->length();
    for (int i = 0; i < rows; ++i) rows_.push_back(captured_.place(id, from + i));
    Result<Txn> txn = slot.timeline->begin(rows, rows);
    if (!txn.ok()) return end(false), txn.error();
    txns_[static_cast<std::size_t>(id)].emplace(std::move(*txn));
    segments_.push_back(txns_[static_cast<std::size_t>(id)]->segment());
  }
  if (rows_.empty()) return {};
  tokens_.assign(rows_.size(), 0);  // no instruction of the program reads them
  StepArgs args;
  args.tokens = tokens_;
  args.hidden = {&captured_.store(), rows_};
  args.segments = segments_;
  args.logits = false;
  try {
    context_->submit(args, *state_);
  } catch (...) {
    end(false);
    throw;
  }
  end(true);
  return {};
}

int DflashDrafter::plan(const DraftSlot& slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  const bool can = state.timeline && !state.timeline->lost() && state.seen > state.first;
  return can ? std::min(slot.max_depth(), network_.most_drafts) : 0;
}

/// The mask token is in the vocabulary, but not a token of any text. A walk excludes it itself.
std::span<const LogitBias> DflashDrafter::without_mask(const DraftSlot& slot) {
  std::vector<LogitBias>& bias = biases_[static_cast<std::size_t>(slot.id)];
  bias.assign(slot.sample.bias.begin(), slot.sample.bias.end());
  if (walks_) return bias;
  const auto at = std::ranges::lower_bound(bias, network_.mask_token, {}, &LogitBias::token);
  const LogitBias never{network_.mask_token, std::numeric_limits<float>::lowest()};
  if (at != bias.end() && at->token == never.token) {
    *at = never;
  } else {
    bias.insert(at, never);
  }
  return bias;
}

SampleRow DflashDrafter::sample_row(const DraftSlot& slot, int draft) {
  SampleRow row = slot.sample;
  row.bias = biases_[static_cast<std::size_t>(slot.id)];
  row.position += draft;
  row.stream = slot.rejection ? Stream::kDraft : Stream::kTarget;
  row.store = one_by_one(slot) ? -1 : slot.store + draft;
  row.exact = false;
  return row;
}

Status DflashDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  ids_.clear();
  for (DraftSlot* slot : slots) {
    ids_.push_back(slot->id);
    slot->backlog_rows = 0;
  }
  FT_TRY(take_in(ids_));
  Status status;
  try {
    status = draft(slots, round_tokens);
  } catch (...) {
    finish(slots, false);
    throw;
  }
  finish(slots, status.ok());
  return status;
}

Status DflashDrafter::draft(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  tokens_.clear(), segments_.clear(), logit_rows_.clear(), samples_.clear();
  StepArgs args;
  args.logits = false;
  for (DraftSlot* slot : slots) {
    const auto id = static_cast<std::size_t>(slot->id);
    const int first = network_.drafts_from_anchor ? 0 : 1, rows = first + slot->depth;
    FT_ASSIGN(Txn txn, slots_[id].timeline->begin(rows, 0));
    txns_[id].emplace(std::move(txn));
    segments_.push_back(txns_[id]->segment());
    without_mask(*slot);
    for (int row = 0; row < rows; ++row) {
      if (row >= first) {
        logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()));
        samples_.push_back(sample_row(*slot, row - first));
      }
      tokens_.push_back(row == 0 ? slot->tokens.back() : network_.mask_token);
    }
    slot->drafted = slot->depth;
    args.logits = args.logits || one_by_one(*slot);
  }
  args.tokens = tokens_;
  args.segments = segments_;
  args.logit_rows = logit_rows_;
  args.samples = samples_;
  args.round_tokens = round_tokens;
  block_->submit(args, *state_);
  collected_ = args.logits;
  if (collected_) draw(slots, block_->collect());
  return {};
}

/// Ends the block without keeping any of it.
void DflashDrafter::finish(std::span<DraftSlot*> slots, bool good) {
  for (DraftSlot* slot : slots) {
    std::optional<Txn>& txn = txns_[static_cast<std::size_t>(slot->id)];
    if (!good) slot->drafted = 0;
    slot->known = collected_ || !good;
    if (!txn) continue;
    good ? txn->commit(0) : txn->rollback();
    txn.reset();
  }
}

void DflashDrafter::draw(std::span<DraftSlot*> slots, const StepResult& result) {
  const auto vocabulary = static_cast<std::size_t>(block_->vocabulary());
  std::size_t first = 0;
  for (DraftSlot* slot : slots) {
    if (one_by_one(*slot)) {
      draw_one_by_one(*slot, [&](std::size_t i, const SampleRow& row, std::int32_t before) -> Choices {
        const std::size_t at = first + i;
        if (!walks_) return {result.logits.subspan(at * vocabulary, vocabulary), block_->ids()};
        block_->walk_candidates(at, before, row.mask, candidates_);
        return {candidates_.scores, candidates_.ids};
      });
    }
    first += static_cast<std::size_t>(slot->depth);
  }
}

// A template, because a std::function would allocate.
template <class ChoicesOf>
void DflashDrafter::draw_one_by_one(DraftSlot& slot, const ChoicesOf& choices) {
  slot.drafted = 0;
  for (int i = 0; i < slot.depth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto before = slot.drafts.first(at);
    SampleRow row = sample_row(slot, i);
    if (slot.constraint != nullptr) {
      const auto mask = slot.constraint->mask(before);
      if (!mask) return;
      row.mask = *mask;
    }
    const auto [logits, ids] = choices(at, row, i == 0 ? slot.tokens.back() : slot.drafts[at - 1]);
    if (slot.rejection) distribution(logits, ids, row, scratch_, (*slot.proposal)[at], before);
    slot.drafts[at] = sample(logits, ids, row, scratch_, before);
    slot.drafted = i + 1;
  }
}

/// The timeline is the whole memory: it can be cut at any length.
struct DflashDrafter::Memory final : DraftMemory {
  Memory(int drafter, Timeline saved, std::int64_t begin)
      : number(drafter), timeline(std::move(saved)), first(begin) {}
  int drafter() const override { return number; }
  std::int64_t low() const override { return first + 1; }
  std::int64_t bytes() const override { return 0; }
  std::span<const std::int32_t> blocks() const override { return timeline.blocks(); }
  bool write_to(ByteSink& sink) const override {
    const std::string kind = kind_of(number, first);
    return put_value(sink, first) && timeline.write_to(sink, {kind, first});
  }
  /// Its rows are the target's from `begin` on.
  static std::string kind_of(int drafter, std::int64_t begin) {
    return fmt::format("draft {} {}", drafter, begin);
  }

  int number;
  Timeline timeline;
  std::int64_t first;
};

Result<std::unique_ptr<DraftMemory>> DflashDrafter::save(int slot_id) {
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  if (!slot.timeline || slot.timeline->lost() || slot.seen == slot.first)
    return std::unique_ptr<DraftMemory>();
  FT_TRY(take_in({&slot_id, 1}));
  FT_ASSIGN(Timeline timeline, slot.timeline->fork());
  return std::unique_ptr<DraftMemory>(std::make_unique<Memory>(number(), std::move(timeline), slot.first));
}

Status DflashDrafter::restore(int slot_id, const DraftMemory& saved, std::int64_t length) {
  const auto& memory = static_cast<const Memory&>(*saved.part(number()));
  FT_ASSERT(length >= memory.low() && length <= memory.first + memory.timeline.length());
  close(slot_id);
  FT_ASSIGN(Timeline timeline, memory.timeline.fork(length - memory.first));
  SlotState& slot = slots_[static_cast<std::size_t>(slot_id)];
  slot.timeline = std::move(timeline);
  slot.timeline->reserve(options_.context + options_.max_depth + 1);
  slot.first = memory.first, slot.seen = length;
  return {};
}

Result<std::unique_ptr<DraftMemory>> DflashDrafter::read_memory(ByteSource& source, std::int64_t length) {
  const Error unfit{Code::kCorrupt, "its bytes are not the state of a DFlash drafter"};
  std::int64_t first = 0;
  if (!get_value(source, first)) return unfit;
  const std::string kind = Memory::kind_of(number(), first);
  FT_ASSIGN(Timeline timeline, Timeline::read_from(pool_, source, {kind, first}));
  if (first < 0 || timeline.length() < 1 || first != length - timeline.length()) return unfit;
  return std::unique_ptr<DraftMemory>(std::make_unique<Memory>(number(), std::move(timeline), first));
}

}  // namespace ft
