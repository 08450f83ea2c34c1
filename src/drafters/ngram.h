// Prompt lookup (n-gram lookup): drafts from text that already exists. If the sequence's last kMinMatch
// tokens occurred before, in prompt and output or in the text that the caller predicts, the latest such place
// is continued as it continued then. The length of the match (at most kMaxMatch) is the class of context. A
// continuation that reaches the end of the sequence repeats periodically. After prompt lookup decoding
// (Saxena 2023) and vLLM's ngram proposer. Cost: O(1) for each committed token, O(match) for each proposal;
// no network. Nothing is allocated in a round of a sequence within the reserved context.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drafters/drafter.h"

namespace ft {

class NgramDrafter final : public Drafter {
 public:
  static constexpr int kMinMatch = 3;
  static constexpr int kMaxMatch = 32;

  /// `context`: tokens of a sequence that each slot reserves memory for, 8 to 16 bytes each.
  explicit NgramDrafter(int slots, std::int64_t context = 0)
      : slots_(static_cast<std::size_t>(slots)), context_(context) {}
  std::string_view name() const override { return "lookup"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  Status observe(int /*slot*/, std::span<const std::int32_t> /*tokens*/, bool /*prompt*/) override {
    return {};  // plan() is given the tokens
  }
  int plan(const DraftSlot& slot) override;
  int draft_cost(int /*depth*/) const override { return 0; }
  /// By the length of the match.
  int context_class(int slot) const override;
  double first_guess(int context_class) const override;
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  Continuation continue_drafts(DraftSlot& slot, int most) override;

  /// Length of the match that plan() found last for this slot.
  int match_length(int slot) const { return slots_[static_cast<std::size_t>(slot)].match; }

 private:
  /// The latest end of every kMinMatch-gram of a text that only grows: a table with open addressing that
  /// holds places in the text.
  class Index {
   public:
    void clear();
    void reserve(std::size_t tokens);
    /// Adds the grams that end at `until` or before.
    void extend(std::span<const std::int32_t> text, std::size_t until);
    /// The place after the latest occurrence of the gram; 0: there is none.
    std::size_t find(std::span<const std::int32_t> text, const std::int32_t* gram) const;

   private:
    std::size_t cell(std::span<const std::int32_t> text, const std::int32_t* gram) const;
    void grow(std::span<const std::int32_t> text, std::size_t cells);

    std::vector<std::int32_t> ends_;  // [power of two] 0: empty
    std::size_t used_ = 0;            // cells that are not empty
    std::size_t indexed_ = 0;         // ends below it are in the table
  };
  struct SlotState {
    Index own, predicted;
    int match = 0;
    std::span<const std::int32_t> continuation;  // into the tokens or the predicted text
    bool repeats = false;  // a match in the sequence itself: after its end the continuation begins again
  };
  void find(const DraftSlot& slot, SlotState& state);
  static int class_of(int match) { return match < 6 ? 0 : match < 12 ? 1 : match < 24 ? 2 : 3; }

  std::vector<SlotState> slots_;
  std::int64_t context_;
};

}  // namespace ft
