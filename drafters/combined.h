// Prompt lookup where it has a long match, the MTP head otherwise: text that repeats is drafted for nothing,
// the rest as well as the head can. Both observe every committed row.
#pragma once

#include <memory>
#include <vector>

#include "drafters/drafter.h"
#include "drafters/ngram.h"

namespace ft {

class CombinedDrafter final : public Drafter {
 public:
  static constexpr std::string_view kName = "mtp+lookup";
  /// Tokens of a match; shorter repetitions are less likely to continue than the head's guess.
  static constexpr int kLongMatch = 12;

  CombinedDrafter(Drafter& head, NgramDrafter& lookup, int slots)
      : head_(head), lookup_(lookup), long_match_(static_cast<std::size_t>(slots)) {}
  std::string_view name() const override { return kName; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  void set_positions(int slot, const PositionMap& positions) override {
    head_.set_positions(slot, positions);
  }
  bool reads_rows() const override { return head_.reads_rows(); }
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  int plan(const DraftSlot& slot) override;
  const Drafter& source(int slot) const override {
    return by_lookup(slot) ? static_cast<const Drafter&>(lookup_) : head_;
  }
  /// The dearer one's; source() knows which one it is.
  int draft_cost(int depth) const override { return head_.draft_cost(depth); }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void collect() override { head_.collect(); }

  bool remembers() const override { return head_.remembers(); }
  bool restores(const DraftMemory& memory) const override { return head_.restores(memory); }
  Result<std::unique_ptr<DraftMemory>> save(int slot) override { return head_.save(slot); }
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override;

 private:
  bool by_lookup(int slot) const { return long_match_[static_cast<std::size_t>(slot)] != 0; }

  Drafter& head_;
  NgramDrafter& lookup_;
  std::vector<char> long_match_;  // [slots]
  std::vector<DraftSlot*> by_head_, by_lookup_;
};

}  // namespace ft
