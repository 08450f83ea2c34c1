// For measuring: drafts from a recorded run of the same request, perturbed so that the draft at depth i is
// right with a stated probability, whatever came before. Real verification and rollback then run at a stated
// acceptance. A function of (seed, position, depth) alone decides which drafts are wrong. The inner drafter,
// if there is one, does its work too, so its cost is timed; its drafts are not used.
#pragma once

#include <vector>

#include "drafters/drafter.h"
#include "drafters/registry.h"

namespace ft {

class SyntheticDrafter final : public Drafter {
 public:
  /// Not a name that a user can give: a bench adds the drafter to its decoder.
  static constexpr DrafterKind kKind{"synthetic"};

  /// `schedule[i]`: probability that the draft at depth i + 1 is right, given that those before it were.
  SyntheticDrafter(Drafter* inner, std::vector<double> schedule, std::uint64_t seed)
      : inner_(inner), schedule_(std::move(schedule)), seed_(seed) {}

  /// The whole recorded sequence, prompt included; applies to every slot that is opened from now on.
  void record(std::vector<std::int32_t> tokens) { recorded_ = std::move(tokens); }

  std::string_view name() const override { return kKind.name(); }
  Status open(int slot, std::int64_t position) override {
    return inner_ != nullptr ? inner_->open(slot, position) : Status();
  }
  void close(int slot) override {
    if (inner_ != nullptr) inner_->close(slot);
  }
  void set_positions(int slot, const PositionMap& positions) override {
    if (inner_ != nullptr) inner_->set_positions(slot, positions);
  }
  bool reads_rows() const override { return inner_ != nullptr && inner_->reads_rows(); }
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override {
    return inner_ != nullptr ? inner_->observe(slot, tokens, prompt) : Status();
  }
  int plan(const DraftSlot& slot) override;
  int draft_cost(int depth) const override { return inner_ != nullptr ? inner_->draft_cost(depth) : 0; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;

  bool remembers() const override { return inner_ != nullptr && inner_->remembers(); }
  bool restores(const DraftMemory& memory) const override {
    return inner_ != nullptr && inner_->restores(memory);
  }
  Result<std::unique_ptr<DraftMemory>> save(int slot) override {
    return inner_ != nullptr ? inner_->save(slot) : Drafter::save(slot);
  }
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override {
    return inner_ != nullptr ? inner_->restore(slot, memory, length) : Status();
  }

 private:
  Drafter* inner_;
  std::vector<double> schedule_;
  std::uint64_t seed_;
  std::vector<std::int32_t> recorded_;
  // For the inner drafter, whose drafts must not overwrite this one's.
  std::vector<DraftSlot> inner_slots_;
  std::vector<DraftSlot*> inner_pointers_;
  std::vector<std::int32_t> inner_tokens_;
};

}  // namespace ft
