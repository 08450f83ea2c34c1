// An exercise: a minimal drafter, which drafts the last token again. To join the others it would need only an
// entry in drafters/registry.cpp, in the form of kRepeat.
#pragma once

#include <algorithm>
#include <memory>

#include "drafters/registry.h"

namespace ft::test {

class RepeatDrafter final : public Drafter {
 public:
  std::string_view name() const override { return "repeat"; }
  Status open(int /*slot*/, std::int64_t /*position*/) override { return {}; }
  void close(int /*slot*/) override {}
  Status observe(int /*slot*/, std::span<const std::int32_t> /*tokens*/, bool /*prompt*/) override {
    return {};
  }
  int plan(const DraftSlot& slot) override { return slot.max_depth(); }
  int draft_cost(int /*depth*/) const override { return 0; }
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> /*round_tokens*/) override {
    for (DraftSlot* slot : slots) {
      slot->drafted = slot->depth;
      std::fill_n(slot->drafts.begin(), slot->depth, slot->tokens.back());
      for (int i = 0; slot->rejection && i < slot->depth; ++i)
        (*slot->proposal)[static_cast<std::size_t>(i)].entries.assign(1, {slot->tokens.back(), 1.0F});
    }
    return {};
  }
};

inline Result<std::unique_ptr<Drafter>> open_repeat(const DrafterContext& /*context*/) {
  return std::unique_ptr<Drafter>(std::make_unique<RepeatDrafter>());
}

inline constexpr DrafterSpec kRepeat = {"repeat",
                                        [](const Model&) { return std::string(); },
                                        [](const Model&) -> const Program* { return nullptr; },
                                        [](const Model&) { return CaptureRequest(); },
                                        [](const Model&) { return std::int64_t{0}; },
                                        open_repeat};

}  // namespace ft::test
