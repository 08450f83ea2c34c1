#include "spec/decoder.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>

namespace ft {

Result<DrafterKind> drafter_kind(std::string_view name) {
  if (name == "auto") return DrafterKind::kAuto;
  if (name == "mtp") return DrafterKind::kMtp;
  if (name == "lookup") return DrafterKind::kLookup;
  if (name == "none") return DrafterKind::kNone;
  return Error{Code::kInvalid,
               fmt::format("drafter '{}' is unknown; choose auto, mtp, lookup or none", name)};
}

Result<std::unique_ptr<Decoder>> Decoder::make(Backend& backend, const Model& model,
                                               const DecoderOptions& options) {
  try {
    std::unique_ptr<Decoder> decoder(new Decoder(backend, model, options));
    FT_TRY(decoder->build());
    return decoder;
  } catch (
      const std::bad_alloc&) {  // what a backend does not answer for itself; the sentence needs no memory
    return Error{Code::kExhausted, "out of memory"};
  }
}

Status Decoder::build() {
  CompileOptions compile;
  const int round_rows = options_.slots * (kMaxDepth + 1);
  compile.max_rows = std::max({options_.chunk, round_rows, options_.logit_rows});
  compile.max_wanted = std::max(round_rows, options_.logit_rows);
  FT_ASSIGN(target_, backend_.compile(model_.trunk, compile));
  const int blocks_each = blocks_of(options_.context);
  FT_TRY(plan_room(blocks_each));
  const StateOptions state{options_.slots + room_.snapshots, options_.slots * blocks_each + room_.blocks};
  FT_ASSIGN(state_, backend_.make_state(model_.trunk.layout(), state));
  pool_ = std::make_unique<TimelinePool>(*state_, state);
  lookup_ = std::make_unique<LookupDrafter>(options_.slots);
  if (model_.mtp.has_value()) {
    FT_ASSIGN(mtp_, MtpDrafter::make(backend_, *model_.mtp,
                                     {options_.slots, options_.slots * blocks_each + room_.draft_blocks + 1,
                                      model_.facts.width, room_.snapshots + 1}));  // one while forking
    combined_ = std::make_unique<CombinedDrafter>(*mtp_, *lookup_, options_.slots);
  }
  if (model_.checkpoint) model_.checkpoint->drop_pages();  // packed: what is still read comes back by itself
  round_ = std::make_unique<Round>(*target_, *state_, options_.slots);
  slot_used_.assign(static_cast<std::size_t>(options_.slots), 0);
  return {};
}

int Decoder::blocks_of(std::int64_t context) {
  return static_cast<int>((context + kMaxDepth + kBlockRows) / kBlockRows) + 1;
}

/// As many snapshots as the bytes pay for, each with a block of its own, and as many blocks.
Status Decoder::plan_room(int blocks_each) {
  if (options_.cache_bytes <= 0) return {};
  FT_ASSIGN(const std::unique_ptr<State> one, backend_.make_state(model_.trunk.layout(), {1, 1}));
  room_.snapshot_bytes = one->slot_bytes();
  room_.block_bytes = one->block_bytes();
  if (model_.mtp.has_value()) {
    FT_ASSIGN(const std::unique_ptr<State> head, backend_.make_state(model_.mtp->layout(), {1, 1}));
    room_.draft_block_bytes = head->block_bytes();
    room_.snapshot_bytes += head->slot_bytes() + MtpDrafter::memory_bytes(model_.facts.width);
  }
  const std::int64_t block = std::max<std::int64_t>(1, room_.block_bytes + room_.draft_block_bytes);
  room_.snapshots = static_cast<int>(
      std::min<std::int64_t>(options_.snapshots, options_.cache_bytes / (room_.snapshot_bytes + block)));
  const std::int64_t useful = std::int64_t{room_.snapshots} * blocks_each;
  room_.blocks = static_cast<int>(std::min(useful, options_.cache_bytes / block));
  room_.draft_blocks = model_.mtp.has_value() ? room_.blocks + room_.snapshots : 0;
  return {};
}

Drafter* Decoder::drafter(DrafterKind kind) {
  switch (kind) {
    case DrafterKind::kAuto:
      return combined_ ? static_cast<Drafter*>(combined_.get()) : lookup_.get();
    case DrafterKind::kMtp:
      return mtp_.get();
    case DrafterKind::kLookup:
      return lookup_.get();
    case DrafterKind::kForced:
      return forced_.get();
    case DrafterKind::kNone:
      return nullptr;
  }
  return nullptr;
}

std::string Decoder::drafter_problem(DrafterKind kind) const {
  if (kind == DrafterKind::kMtp && !mtp_) return model_.head.sentence;
  return {};
}

ForcedDrafter& Decoder::force(std::vector<double> schedule, std::uint64_t seed) {
  forced_ = std::make_unique<ForcedDrafter>(mtp_.get(), std::move(schedule), seed);
  return *forced_;
}

std::int64_t Decoder::packed_bytes() const {
  return target_->packed_bytes() + (mtp_ ? mtp_->packed_bytes() : 0);
}

Result<std::unique_ptr<Slot>> Decoder::open(std::span<const std::int32_t> prompt, SlotOptions options,
                                            DrafterKind kind, const Beginning& beginning) {
  if (prompt.empty()) return Error{Code::kInvalid, "the prompt is empty; give at least one token"};
  options.context = options.context > 0 ? std::min(options.context, options_.context) : options_.context;
  if (static_cast<std::int64_t>(prompt.size()) >= options.context) {
    return Error{Code::kExhausted,
                 fmt::format("the prompt has {} tokens and the context holds {}; shorten it or "
                             "raise --context",
                             prompt.size(), options.context)};
  }
  for (const std::int32_t token : prompt) {
    if (token >= 0 && token < target_->vocabulary()) continue;
    return Error{Code::kInvalid,
                 fmt::format("token id {} is outside the vocabulary of {}", token, target_->vocabulary())};
  }
  const auto free = std::find(slot_used_.begin(), slot_used_.end(), 0);
  if (free == slot_used_.end()) return Error{Code::kExhausted, "all slots are in use; wait for one to end"};
  auto slot = std::make_unique<Slot>();
  slot->id = static_cast<int>(free - slot_used_.begin());
  const Snapshot* past = beginning.snapshot;
  FT_ASSERT(past == nullptr || (beginning.length >= past->low() && beginning.length <= past->high() &&
                                beginning.length < static_cast<std::int64_t>(prompt.size())));
  FT_ASSIGN(slot->timeline, past != nullptr ? past->timeline.fork(beginning.length) : Timeline::open(*pool_));
  slot->drafter = drafter(kind);
  if (slot->drafter != nullptr) {
    FT_TRY(past != nullptr && past->draft != nullptr
               ? slot->drafter->restore(slot->id, *past->draft, beginning.length)
               : slot->drafter->open(slot->id));
  }
  slot->options = std::move(options);
  slot->policy = DepthPolicy(slot->options.depth, prior_);
  slot->tokens.reserve(static_cast<std::size_t>(slot->options.context) + kMaxDepth + 1);
  slot->tokens.assign(prompt.begin(), prompt.end());
  slot->prompt_tokens = static_cast<int>(prompt.size());
  slot->history.add_prompt(prompt);
  *free = 1;
  return slot;
}

void Decoder::observe(const RoundShape& shape, int tokens, double ms) {
  // Catching up belongs to what drafting costs a batch, and not to what a round of this shape costs.
  if (shape.late_rows == 0) costs_.observe(shape.rows, shape.passes, ms, shape.slots);
  batch_.observe(shape.slots, shape.rows > shape.slots, tokens, ms);
}

void Decoder::close(Slot& slot) {
  slot.policy.teach(prior_);
  if (slot.drafter != nullptr) slot.drafter->close(slot.id);
  slot.timeline.reset();
  slot_used_[static_cast<std::size_t>(slot.id)] = 0;
}

Result<std::unique_ptr<Slot>> Decoder::fork(const Slot& slot, SlotOptions options, DrafterKind kind) {
  const auto prompt =
      std::span<const std::int32_t>(slot.tokens).first(static_cast<std::size_t>(slot.prompt_tokens));
  FT_ASSIGN(std::unique_ptr<Slot> copy, open(prompt, std::move(options), kind));
  if (Status status = continue_from(slot, *copy); !status.ok()) {
    close(*copy);
    return status.error();
  }
  return copy;
}

Status Decoder::continue_from(const Slot& slot, Slot& copy) {
  copy.timeline.reset();  // its slot of the pool is the one that the fork needs
  FT_ASSIGN(copy.timeline, slot.timeline->fork());
  if (copy.drafter == nullptr || slot.drafter == nullptr || !slot.drafter->remembers()) return {};
  FT_ASSIGN(const std::unique_ptr<DraftMemory> memory, slot.drafter->save(slot.id));
  return memory ? copy.drafter->restore(copy.id, *memory, slot.timeline->length()) : Status();
}

Result<Snapshot> Decoder::snapshot(const Slot& slot) {
  FT_ASSERT(!slot.timeline->lost() && slot.timeline->length() > 0);
  FT_ASSIGN(Timeline timeline, slot.timeline->fork());
  Snapshot snapshot{std::move(timeline), nullptr};
  if (slot.drafter != nullptr && slot.drafter->remembers()) {
    FT_ASSIGN(snapshot.draft, slot.drafter->save(slot.id));
  }
  return snapshot;
}

Status Decoder::score(std::span<const std::int32_t> tokens, int chunk,
                      const std::function<void(std::int64_t, std::span<const float>)>& row) {
  const int most = std::max(options_.slots * (kMaxDepth + 1), options_.logit_rows);
  chunk = chunk <= 0 ? most : std::min(chunk, most);
  FT_ASSIGN(Timeline timeline, Timeline::open(*pool_));
  const auto vocabulary = static_cast<std::size_t>(target_->vocabulary());
  std::vector<std::int32_t> wanted;
  for (std::size_t done = 0; done < tokens.size();) {
    const int rows =
        static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(chunk), tokens.size() - done));
    FT_ASSIGN(Txn txn, timeline.begin(rows, rows));
    const Segment segment = txn.segment();
    wanted.clear();
    for (int i = 0; i < rows; ++i) wanted.push_back(i);
    StepResult result;
    try {
      result = target_->run(
          StepArgs{tokens.subspan(done, static_cast<std::size_t>(rows)), {}, {&segment, 1}, wanted, {}, {}},
          *state_);
    } catch (...) {
      txn.rollback();
      throw;
    }
    txn.commit(rows);
    for (int i = 0; i < rows; ++i) {
      row(static_cast<std::int64_t>(done) + i,
          result.logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary));
    }
    done += static_cast<std::size_t>(rows);
  }
  return {};
}

}  // namespace ft
