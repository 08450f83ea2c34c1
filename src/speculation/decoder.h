// Everything that one model needs to decode on one backend, in four parts: the assembly that slots share, the
// slots, their snapshots, and the round. Its caller decides which slot gets a prompt chunk or a round, and
// when. Cost: make() packs all weights. Errors: make: from compile and allocation; open: as in slots.h.
#pragma once

#include <memory>
#include <string>

#include "speculation/assembly.h"
#include "speculation/round.h"
#include "speculation/scoring.h"
#include "speculation/slots.h"
#include "speculation/snapshot.h"

namespace ft {

class Decoder {
 public:
  /// `backend` and `model` must outlive the decoder.
  static Result<std::unique_ptr<Decoder>> make(Backend& backend, const Model& model,
                                               const DecoderOptions& options);
  static int blocks_of(std::int64_t context, int max_depth) {
    return Assembly::blocks_of(context, max_depth);
  }
  static DecoderOptions resolved(const DecoderOptions& options, const Backend& backend, const Model& model) {
    return Assembly::resolved(options, backend, model);
  }

  // Slots: slots.h.
  Result<std::unique_ptr<Slot>> open(std::span<const std::int32_t> prompt, SlotOptions options,
                                     DrafterKind kind, const PrefixHit& hit = {},
                                     std::span<const PromptImage> images = {}) {
    return slots_.open(prompt, std::move(options), kind, hit, images);
  }
  void close(Slot& slot) { slots_.close(slot); }
  Result<std::unique_ptr<Slot>> fork(const Slot& slot, SlotOptions options, DrafterKind kind) {
    return slots_.fork(slot, std::move(options), kind);
  }

  // Snapshots: snapshot.h.
  const Snapshots& snapshots() const { return snapshots_; }
  const SnapshotRoom& room() const { return assembly_->room(); }
  Result<Snapshot> snapshot(const Slot& slot) const { return snapshots_.take(slot); }

  /// Reads the images of those rows first.
  Status prefill(Slot& slot, int rows);
  Status prefill_together(std::span<Slot* const> slots) { return round_.prefill_together(slots); }
  RoundShape round(std::span<Slot* const> slots) {
    return round_.run(slots, costs_, !costs_.plain_due(static_cast<int>(slots.size())));
  }
  /// See Round::meanwhile.
  void meanwhile(std::function<void()> work) { round_.meanwhile(std::move(work)); }
  /// The shape and the milliseconds of the last round.
  void observe(const RoundShape& shape, double ms);
  CostModel& costs() { return costs_; }
  /// score_text() of scoring.h.
  Status score(std::span<const std::int32_t> tokens, int chunk,
               const std::function<void(std::int64_t, std::span<const float>)>& row) {
    return score_text(*assembly_, tokens, chunk, row);
  }

  // The shared parts: assembly.h.
  const Assembly& assembly() const { return *assembly_; }
  Drafter* drafter(DrafterKind kind) { return assembly_->drafter(kind); }
  std::span<const std::unique_ptr<Drafter>> drafters() const { return assembly_->drafters(); }
  Drafter* network_drafter() { return assembly_->network_drafter(); }
  std::string drafter_problem(DrafterKind kind) const { return assembly_->drafter_problem(kind); }
  SyntheticDrafter& force(std::vector<double> schedule, std::uint64_t seed) {
    return assembly_->force(std::move(schedule), seed);
  }
  const Model& model() const { return assembly_->model(); }
  Backend& backend() { return assembly_->backend(); }
  Executable& target() { return assembly_->target(); }
  std::int64_t packed_bytes() const { return assembly_->packed_bytes(); }
  std::int64_t state_bytes() const { return assembly_->state().bytes(); }
  const TimelinePool& pool() const { return assembly_->pool(); }
  void release_unused() const { assembly_->release_unused(); }
  const TimelinePool* draft_pool() const { return assembly_->draft_pool(); }
  const DecoderOptions& options() const { return assembly_->options(); }
  const std::string& images_problem() const { return assembly_->images_problem(); }
  /// Images that the tower has read since the start.
  std::int64_t images_read() const { return images_read_; }

 private:
  explicit Decoder(std::unique_ptr<Assembly> assembly);

  std::unique_ptr<Assembly> assembly_;
  Slots slots_;
  Snapshots snapshots_;
  Round round_;
  CostModel costs_;
  std::int64_t images_read_ = 0;
};

}  // namespace ft
