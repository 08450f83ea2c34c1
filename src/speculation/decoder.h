// Everything one model needs to decode on one backend: the compiled target and its timelines, the drafters,
// the round. It opens and closes slots; its caller decides when which slot gets a prompt chunk or a round.
// Cost: make() packs all weights. Errors: make returns those of compile and memory; open returns kExhausted
// when no slot or cache block is free.
#pragma once

#include <memory>
#include <string>

#include "drafters/captured_rows.h"
#include "drafters/drafter_set.h"
#include "drafters/registry.h"
#include "drafters/synthetic.h"
#include "models/model.h"
#include "speculation/image_encoder.h"
#include "speculation/round.h"
#include "speculation/snapshot.h"

namespace ft {

struct DecoderOptions {
  int slots = 1;
  std::int64_t context = 4096;      // of each slot, in tokens
  int prefill_chunk = 0;            // prompt rows of one step; 0: what suits the backend
  int max_depth = kMaxDraftTokens;  // drafts of a slot in a round, at most kMaxDraftTokens
  int logit_rows = 0;               // rows with logits that a caller of score() needs; 0: those of a round
  std::int64_t cache_bytes = 0;     // memory that snapshots may hold; what none of them used costs nothing
  int snapshots = 4096;             // that there may be within those bytes
  std::int64_t recall_bytes = 0;    // memory for texts of earlier requests to draft from; 0: none
  std::int64_t max_pixels = 0;      // of a resized image of a prompt; 0: images::kDefaultMaxPixels
};

/// Room for snapshots beside that of the slots, and what they cost.
struct SnapshotRoom {
  int snapshots = 0, blocks = 0, draft_blocks = 0;  // at most
  std::int64_t snapshot_bytes = 0;                  // of one, beside its blocks
  std::int64_t block_bytes = 0, draft_block_bytes = 0;
  std::int64_t window_bytes = 0;  // of a block that windows see, beside block_bytes
  int window_blocks = 0;          // such blocks of one snapshot, at most
};

class Decoder {
 public:
  /// `backend` and `model` must outlive the decoder.
  static Result<std::unique_ptr<Decoder>> make(Backend& backend, const Model& model,
                                               const DecoderOptions& options);

  /// Key/value blocks that a slot of this context has: it may reach it, and a round reserve rows beyond.
  static int blocks_of(std::int64_t context, int max_depth);
  /// The options with what the backend decides filled in.
  static DecoderOptions resolved(DecoderOptions options, const Backend& backend, const Model& model);

  /// A slot with its prompt, not yet prefilled. kInvalid if the prompt is empty, holds ids outside the
  /// vocabulary or leaves no room in the context.
  Result<std::unique_ptr<Slot>> open(std::span<const std::int32_t> prompt, SlotOptions options,
                                     DrafterKind kind, const PrefixHit& hit = {},
                                     std::span<const PromptImage> images = {});
  void close(Slot& slot);
  /// A slot that continues `slot` from its prompt state with other options: no prompt work is repeated.
  Result<std::unique_ptr<Slot>> fork(const Slot& slot, SlotOptions options, DrafterKind kind);

  /// What the slot is now, between two rounds or chunks. kExhausted if there is no room for it; the slot must
  /// have committed a token and not be lost.
  Result<Snapshot> snapshot(const Slot& slot);
  const SnapshotRoom& room() const { return room_; }
  /// What a snapshot's write_to() wrote: kCorrupt if it cannot be that, kExhausted without room.
  Result<Snapshot> read_snapshot(ByteSource& source);
  /// What a snapshot's bytes depend on, but for the weights: programs, layouts, the backend's arithmetic.
  std::string state_identity() const;

  /// Reads the images of those rows first.
  Status prefill(Slot& slot, int rows);
  RoundShape round(std::span<Slot* const> slots) {
    return round_->run(slots, costs_, !costs_.plain_due(static_cast<int>(slots.size())));
  }
  /// See Round::meanwhile.
  void meanwhile(std::function<void()> work) { round_->meanwhile(std::move(work)); }
  /// What the last round took: its shape, milliseconds.
  void observe(const RoundShape& shape, double ms);
  CostModel& costs() { return costs_; }

  /// Logits [tokens, vocabulary] of a text in chunks: `row(position, logits)` for every position.
  Status score(std::span<const std::int32_t> tokens, int chunk,
               const std::function<void(std::int64_t, std::span<const float>)>& row);

  /// What would draft for a request of this kind; null: nothing.
  Drafter* drafter(DrafterKind kind);
  /// All that the model can have, by number.
  std::span<const std::unique_ptr<Drafter>> drafters() const { return drafters_; }
  /// The first one that has a network; null: none has.
  Drafter* network_drafter();
  /// Why `kind` cannot be had, empty if it can.
  std::string drafter_problem(DrafterKind kind) const;
  /// For measuring at a stated acceptance: what SyntheticDrafter::kKind names. Replaces an earlier one.
  SyntheticDrafter& force(std::vector<double> schedule, std::uint64_t seed);

  const Model& model() const { return model_; }
  Backend& backend() { return backend_; }
  Executable& target() { return *target_; }
  std::int64_t packed_bytes() const;
  std::int64_t state_bytes() const { return state_->bytes(); }
  const TimelinePool& pool() const { return *pool_; }
  /// Free blocks and slots give their memory back to the system. Between two steps.
  void release_unused() const;
  /// The pool of the first drafter that has a cache of its own; null: none has.
  const TimelinePool* draft_pool() const;
  const DecoderOptions& options() const { return options_; }
  /// Why prompts cannot have images, one sentence; empty if they can.
  const std::string& images_problem() const { return images_problem_; }
  /// Images that the tower has read since the start.
  std::int64_t images_read() const { return images_read_; }

 private:
  Decoder(Backend& backend, const Model& model, const DecoderOptions& options)
      : backend_(backend), model_(model), options_(options) {}
  Status build();
  Status build_images();
  Status take_images(Slot& slot, std::span<const PromptImage> images) const;
  Status build_drafters(int step_rows, int blocks_each);
  Status capture_for(std::span<const DrafterSpec* const> specs, int step_rows);
  CapturedSet captured() const;
  CapturedRows* captured(const std::string& name) const;
  Status open_drafter(Slot& slot, const PrefixHit& hit);
  void plan_room(int blocks_each);
  static Status continue_from(const Slot& slot, Slot& copy);

  Backend& backend_;
  const Model& model_;
  DecoderOptions options_;
  std::unique_ptr<Executable> target_;
  std::unique_ptr<State> state_;
  std::unique_ptr<TimelinePool> pool_;
  std::array<std::unique_ptr<CapturedRows>, kMaxCaptures> captured_;  // [Capture::number]
  std::unique_ptr<ImageEncoder> encoder_;                             // null: images_problem_ says why
  std::unique_ptr<ImageRows> images_;                                 // null as well
  std::string images_problem_;
  std::int64_t images_read_ = 0;
  std::vector<std::unique_ptr<Drafter>> drafters_;  // [Drafter::number()], those that the model can have
  std::unique_ptr<DrafterSet> round_robin_;         // the same drafters by turns, for the matrix
  std::unique_ptr<DrafterSet> drafter_set_;         // what auto means; null: there is one drafter
  std::unique_ptr<SyntheticDrafter> synthetic_;
  std::unique_ptr<Round> round_;
  std::vector<char> slot_used_;  // [slots]
  SnapshotRoom room_;
  CostModel costs_;
  AcceptancePrior prior_;
};

}  // namespace ft
