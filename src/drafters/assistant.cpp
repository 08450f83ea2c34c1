#include "drafters/assistant.h"

#include <utility>

#include "drafters/chain_pass.h"

namespace ft {

Result<std::unique_ptr<AssistantDrafter>> AssistantDrafter::make(Backend& backend, const Program& program,
                                                                 State& target, CapturedRows& captured,
                                                                 const Options& options) {
  CompileOptions compile;
  compile.max_rows = compile.max_logit_rows = options.slots;
  FT_ASSIGN(std::unique_ptr<Executable> network, backend.compile(program, compile));
  FT_ASSIGN(std::unique_ptr<RowStore> chain, backend.make_rows(options.hidden, 2 * options.slots));
  return std::unique_ptr<AssistantDrafter>(
      new AssistantDrafter(options, target, captured, std::move(network), std::move(chain)));
}

AssistantDrafter::AssistantDrafter(const Options& options, State& target, CapturedRows& captured,
                                   std::unique_ptr<Executable> network, std::unique_ptr<RowStore> chain)
    : options_(options),
      target_(target),
      captured_(captured),
      network_(std::move(network)),
      chain_(std::move(chain)),
      slots_(static_cast<std::size_t>(options.slots)) {
  scratch_.reserve(static_cast<std::size_t>(network_->vocabulary()));
}

Status AssistantDrafter::open(int slot, std::int64_t position) {
  slots_[static_cast<std::size_t>(slot)] = {position, position};
  return {};
}

void AssistantDrafter::close(int slot) { slots_[static_cast<std::size_t>(slot)] = {}; }

Status AssistantDrafter::observe(int slot, std::span<const std::int32_t> tokens, bool /*prompt*/) {
  slots_[static_cast<std::size_t>(slot)].seen += std::ssize(tokens);
  return {};
}

int AssistantDrafter::plan(const DraftSlot& slot) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  return state.seen > state.first ? slot.max_depth() : 0;
}

Status AssistantDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) {
  collected_ = true;
  for (const DraftSlot* slot : slots)
    FT_ASSERT(slot->target_rows == slots_[static_cast<std::size_t>(slot->id)].seen);
  try {
    for (int step = 0; step < options_.max_depth; ++step) pass(slots, step, round_tokens);
  } catch (...) {
    for (DraftSlot* slot : slots) slot->drafted = 0, slot->known = true;
    throw;
  }
  for (DraftSlot* slot : slots) slot->known = collected_;
  return {};
}

/// Waits for the pass only if the host needs its drafts for a mask of the next pass, or its logits for a
/// distribution.
void AssistantDrafter::pass(std::span<DraftSlot*> slots, int step, std::span<std::int32_t> round_tokens) {
  tokens_.clear(), rows_.clear(), segments_.clear(), logit_rows_.clear(), samples_.clear();
  coordinates_.clear(), fed_back_.clear();
  StepArgs args;
  args.logits = false;
  bool wait = false;
  for (const DraftSlot* slot : slots) {
    if (slot->depth <= step) continue;
    const std::int64_t last = slot->target_rows - 1;
    const auto before = static_cast<std::int32_t>(last);
    logit_rows_.push_back(static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back(step == 0 ? slot->tokens.back() : -1 - (slot->store + step - 1));
    rows_.push_back(step == 0 ? captured_.place(slot->id, last) : chain_place(slot->id, step - 1));
    segments_.push_back({{slot->target_blocks}, last, 1, 0});
    coordinates_.push_back({before + 1, before, before});
    samples_.push_back(chain_sample(*slot, step));
    fed_back_.push_back(slot->depth > step + 1 ? chain_place(slot->id, step) : -1);
    args.logits = args.logits || slot->rejection;
    wait = wait || slot->rejection || slot->constraint != nullptr;
  }
  if (tokens_.empty()) return;
  args.tokens = tokens_;
  args.hidden = {step == 0 ? &captured_.store() : chain_.get(), rows_};
  args.segments = segments_;
  args.logit_rows = logit_rows_;
  args.samples = samples_;
  args.round_tokens = round_tokens;
  args.coordinates = coordinates_;
  args.capture = {chain_.get(), fed_back_};
  submit_pass(*network_, args, target_, slots, step, samples_);
  collected_ = wait;
  const StepResult result = wait ? network_->collect() : StepResult();
  take_drafts(slots, step, result, *network_, samples_, scratch_);
}

}  // namespace ft
