// Several drafters for one slot. Each of them observes every committed row, and the round chooses one by
// costs and acceptance (speculation/depth.h). A drafter that is not chosen lags and catches up when
// it is. One that fails for a slot leaves the set; the others stay. The set's memory holds theirs.
#pragma once

#include <memory>
#include <vector>

#include "drafters/drafter.h"

namespace ft {

class DrafterSet final : public Drafter {
 public:
  /// Not a name that a user can give: the matrix adds the drafter to its decoder.
  static constexpr std::string_view kRoundRobin = "round-robin";

  /// `members`: at least one; they outlive it. `round_robin`: they take turns, two rounds each, whatever they
  /// cost; for tests of drafters that change in the middle of an answer.
  DrafterSet(std::vector<Drafter*> members, int slots, bool round_robin = false);

  std::string_view name() const override { return name_; }
  const std::vector<Drafter*>& all() const { return members_; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  void set_positions(int slot, const PositionMap& positions) override;
  bool reads_rows() const override;
  Status observe(int slot, std::span<const std::int32_t> tokens, bool prompt) override;
  int plan(const DraftSlot& slot) override;
  int draft_cost(int depth) const override;
  /// Not called: the round asks members().
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  std::span<Drafter* const> members(int slot) const override;
  bool drop_member(int slot, Drafter& member) override;
  void learn(std::span<const std::int32_t> tokens, std::uint64_t owner) override;

  bool remembers() const override;
  bool restores(const DraftMemory& memory) const override;
  Result<std::unique_ptr<DraftMemory>> save(int slot) override;
  Status restore(int slot, const DraftMemory& memory, std::int64_t length) override;
  Result<std::unique_ptr<DraftMemory>> read_memory(ByteSource& source, std::int64_t length) override;

 private:
  struct Memory;
  std::vector<Drafter*>& of(int slot) { return open_[static_cast<std::size_t>(slot)]; }
  const std::vector<Drafter*>& of(int slot) const { return open_[static_cast<std::size_t>(slot)]; }
  Drafter* member(int number) const;

  std::vector<Drafter*> members_;
  std::string name_;  // "mtp+lookup"
  bool round_robin_;
  mutable std::vector<std::size_t> turns_;   // [slots] rounds so far
  std::vector<std::vector<Drafter*>> open_;  // [slots] those that did not fail
};

}  // namespace ft
