#include "drafters/lookup.h"

#include <algorithm>

namespace ft {
namespace {

std::uint64_t gram_hash(const std::int32_t* tokens) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
  for (int i = 0; i < LookupDrafter::kMinMatch; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens[i])) * 0xD6E8FEB86659FD93ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

/// How many tokens before `end` equal the last tokens of `suffix`.
int match_backwards(std::span<const std::int32_t> text, std::size_t end,
                    std::span<const std::int32_t> suffix) {
  int length = 0;
  while (length < LookupDrafter::kMaxMatch &&
         static_cast<std::size_t>(length) < std::min(end, suffix.size()) &&
         text[end - 1 - static_cast<std::size_t>(length)] ==
             suffix[suffix.size() - 1 - static_cast<std::size_t>(length)]) {
    ++length;
  }
  return length;
}

}  // namespace

Status LookupDrafter::open(int slot, std::int64_t) {
  slots_[static_cast<std::size_t>(slot)] = {};
  return {};
}

void LookupDrafter::close(int slot) { slots_[static_cast<std::size_t>(slot)] = {}; }

void LookupDrafter::find(const DraftSlot& slot, SlotState& state) {
  const auto extend = [](Index& index, std::span<const std::int32_t> text, std::size_t until) {
    for (std::size_t end = std::max<std::size_t>(index.indexed, kMinMatch); end <= until; ++end) {
      index.last[gram_hash(text.data() + end - kMinMatch)] = static_cast<std::int32_t>(end);
    }
    index.indexed = std::max(index.indexed, until + 1);
  };
  state.match = 0;
  state.continuation = {};
  if (slot.tokens.size() < static_cast<std::size_t>(kMinMatch)) return;
  // The gram at the very end must not find itself: it is indexed once something stands behind it.
  extend(state.own, slot.tokens, slot.tokens.size() - 1);
  extend(state.predicted, slot.predicted, slot.predicted.empty() ? 0 : slot.predicted.size() - 1);
  const std::uint64_t hash = gram_hash(slot.tokens.data() + slot.tokens.size() - kMinMatch);
  const auto consider = [&](const Index& index, std::span<const std::int32_t> text, bool own) {
    const auto found = index.last.find(hash);
    if (found == index.last.end()) return;
    const auto end = static_cast<std::size_t>(found->second);
    const int length = match_backwards(text, end, slot.tokens);
    if (length < kMinMatch || length <= state.match) return;
    state.match = length;
    state.continuation = text.subspan(end);
    state.repeats = own;
  };
  consider(state.predicted, slot.predicted, false);
  consider(state.own, slot.tokens, true);
}

int LookupDrafter::plan(const DraftSlot& slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  find(slot, state);
  if (state.continuation.empty()) return 0;
  return state.repeats ? kMaxDepth
                       : static_cast<int>(std::min<std::size_t>(state.continuation.size(), kMaxDepth));
}

Status LookupDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t>) {
  for (DraftSlot* slot : slots) {
    const SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    const std::size_t length = state.continuation.size();
    const int count = state.repeats ? slot->depth : std::min(slot->depth, static_cast<int>(length));
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      slot->drafts[at] = state.continuation[at % length];
      if (slot->ratio) (*slot->proposal)[at].entries.assign(1, {slot->drafts[at], 1.0F});
    }
    slot->drafted = count;
  }
  return {};
}

}  // namespace ft
