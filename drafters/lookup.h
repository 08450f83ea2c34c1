// Drafts from text that is already there: the latest place in prompt and output, or in the text that the
// caller predicts, where the sequence's last kMinMatch tokens stood before is continued as it went on then.
// How far the match reaches back (at most kMaxMatch) says how much it is worth. A continuation that reaches
// the end of the sequence goes on periodically. After prompt lookup decoding (Saxena 2023) and vLLM's ngram
// proposer. Cost: a hash table of every kMinMatch-gram, O(1) per committed token, O(match) per proposal; no
// network.
#pragma once

#include <unordered_map>
#include <vector>

#include "drafters/drafter.h"

namespace ft {

class LookupDrafter final : public Drafter {
 public:
  static constexpr int kMinMatch = 3;
  static constexpr int kMaxMatch = 32;

  explicit LookupDrafter(int slots) : slots_(static_cast<std::size_t>(slots)) {}
  std::string_view name() const override { return "lookup"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  Status observe(int /*slot*/, std::span<const std::int32_t> /*tokens*/, bool /*prompt*/) override {
    return {};  // plan() is given the tokens
  }
  int plan(const DraftSlot& slot) override;
  bool free_of_cost(int /*slot*/) const override { return true; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;

  /// Length of the match that plan() found last for this slot; the combined drafter asks for a long one.
  int match_length(int slot) const { return slots_[static_cast<std::size_t>(slot)].match; }

 private:
  struct Index {
    std::unordered_map<std::uint64_t, std::int32_t>
        last;                 // hash of kMinMatch tokens -> place behind its latest end
    std::size_t indexed = 0;  // tokens that are in `last`
  };
  struct SlotState {
    Index own, predicted;
    int match = 0;
    std::span<const std::int32_t> continuation;  // into the tokens or the predicted text
    bool repeats = false;  // a match in the sequence itself: behind its end the continuation begins again
  };
  void find(const DraftSlot& slot, SlotState& state);

  std::vector<SlotState> slots_;
};

}  // namespace ft
