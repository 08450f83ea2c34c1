// Lookup where it has a long match, the model's head otherwise: text that repeats is drafted for nothing, the
// rest as well as the head can. Both see every committed row. Cost: that of whichever is asked.
#pragma once

#include <memory>
#include <vector>

#include "drafters/drafter.h"
#include "drafters/lookup.h"

namespace ft {

class CombinedDrafter final : public Drafter {
 public:
  static constexpr int kLongMatch =
      12;  // tokens; shorter repetitions are less likely to go on than the head's guess

  CombinedDrafter(Drafter& head, LookupDrafter& lookup, int slots)
      : head_(head), lookup_(lookup), long_match_(static_cast<std::size_t>(slots)) {}
  std::string_view name() const override { return "mtp+lookup"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  bool reads_rows() const override { return head_.reads_rows(); }
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  bool remembers() const override { return head_.remembers(); }
  Result<std::unique_ptr<DraftMemory>> save(int slot) override { return head_.save(slot); }
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override;
  int plan(const DraftSlot& slot) override;
  bool free_of_cost(int slot) const override { return long_match_[static_cast<std::size_t>(slot)] != 0; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void collect() override { head_.collect(); }

 private:
  Drafter& head_;
  LookupDrafter& lookup_;
  std::vector<char> long_match_;  // [slots]
  std::vector<DraftSlot*> by_head_, by_lookup_;
};

}  // namespace ft
