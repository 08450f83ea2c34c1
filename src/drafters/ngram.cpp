#include "drafters/ngram.h"

#include <algorithm>
#include <array>
#include <bit>

namespace ft {
namespace {

std::uint64_t gram_hash(const std::int32_t* tokens) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
  for (int i = 0; i < NgramDrafter::kMinMatch; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens[i])) * 0xD6E8FEB86659FD93ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

/// The number of tokens before `end` that equal the last tokens of `suffix`.
int match_backwards(std::span<const std::int32_t> text, std::size_t end,
                    std::span<const std::int32_t> suffix) {
  int length = 0;
  while (length < NgramDrafter::kMaxMatch &&
         static_cast<std::size_t>(length) < std::min(end, suffix.size()) &&
         text[end - 1 - static_cast<std::size_t>(length)] ==
             suffix[suffix.size() - 1 - static_cast<std::size_t>(length)]) {
    ++length;
  }
  return length;
}

}  // namespace

void NgramDrafter::Index::clear() {
  if (used_ > 0) std::ranges::fill(ends_, 0);
  used_ = indexed_ = 0;
}

void NgramDrafter::Index::reserve(std::size_t tokens) {
  const std::size_t cells = std::bit_ceil(2 * tokens);
  if (cells > ends_.size()) ends_.assign(cells, 0), used_ = indexed_ = 0;
}

/// The cell of the gram, or the empty cell where it would be.
std::size_t NgramDrafter::Index::cell(std::span<const std::int32_t> text, const std::int32_t* gram) const {
  const std::size_t mask = ends_.size() - 1;
  std::size_t at = gram_hash(gram) & mask;
  while (ends_[at] != 0 && !std::equal(gram, gram + kMinMatch, text.data() + ends_[at] - kMinMatch)) {
    at = (at + 1) & mask;
  }
  return at;
}

void NgramDrafter::Index::grow(std::span<const std::int32_t> text, std::size_t cells) {
  ends_.assign(cells, 0);
  used_ = 0;
  const std::size_t until = indexed_ > 0 ? indexed_ - 1 : 0;
  indexed_ = 0;
  extend(text, until);
}

void NgramDrafter::Index::extend(std::span<const std::int32_t> text, std::size_t until) {
  constexpr std::size_t kMinCells = 256;
  for (std::size_t end = std::max<std::size_t>(indexed_, kMinMatch); end <= until; ++end) {
    if (2 * (used_ + 1) > ends_.size()) grow(text, std::max(kMinCells, 2 * ends_.size()));
    std::int32_t& found = ends_[cell(text, text.data() + end - kMinMatch)];
    used_ += found == 0 ? 1 : 0;
    found = static_cast<std::int32_t>(end);
    indexed_ = end + 1;
  }
  indexed_ = std::max(indexed_, until + 1);
}

std::size_t NgramDrafter::Index::find(std::span<const std::int32_t> text, const std::int32_t* gram) const {
  return ends_.empty() ? 0 : static_cast<std::size_t>(ends_[cell(text, gram)]);
}

Status NgramDrafter::open(int slot, std::int64_t) {
  close(slot);
  slots_[static_cast<std::size_t>(slot)].own.reserve(static_cast<std::size_t>(context_));
  return {};
}

void NgramDrafter::close(int slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot)];
  state.own.clear();
  state.predicted.clear();
  state.match = 0;
  state.continuation = {};
}

void NgramDrafter::find(const DraftSlot& slot, SlotState& state) {
  state.match = 0;
  state.continuation = {};
  if (slot.tokens.size() < static_cast<std::size_t>(kMinMatch)) return;
  // The gram at the very end must not find itself: it is indexed once something follows it.
  state.own.extend(slot.tokens, slot.tokens.size() - 1);
  if (!slot.predicted.empty()) state.predicted.extend(slot.predicted, slot.predicted.size() - 1);
  const std::int32_t* gram = slot.tokens.data() + slot.tokens.size() - kMinMatch;
  const auto consider = [&](const Index& index, std::span<const std::int32_t> text, bool own) {
    const std::size_t end = index.find(text, gram);
    if (end == 0) return;
    const int length = match_backwards(text, end, slot.tokens);
    if (length < kMinMatch || length <= state.match) return;
    state.match = length;
    state.continuation = text.subspan(end);
    state.repeats = own;
  };
  consider(state.predicted, slot.predicted, false);
  consider(state.own, slot.tokens, true);
}

int NgramDrafter::plan(const DraftSlot& slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  find(slot, state);
  if (state.continuation.empty()) return 0;
  return state.repeats ? slot.max_depth()
                       : static_cast<int>(std::min(state.continuation.size(), slot.drafts.size()));
}

int NgramDrafter::context_class(int slot) const { return class_of(match_length(slot)); }

double NgramDrafter::first_guess(int context_class) const {
  constexpr double kGuesses[kContextClasses] = {0.4, 0.6, 0.85, 0.9};
  return kGuesses[context_class];
}

/// Drafts are not indexed; a continuation may run into them.
NgramDrafter::Continuation NgramDrafter::continue_drafts(DraftSlot& slot, int most) {
  const SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  const auto drafted = static_cast<std::size_t>(slot.drafted);
  const std::size_t whole = slot.tokens.size() + drafted;
  if (most <= 0 || whole < static_cast<std::size_t>(kMinMatch)) return {};
  const auto token = [&](std::size_t at) {
    return at < slot.tokens.size() ? slot.tokens[at] : slot.drafts[at - slot.tokens.size()];
  };
  std::array<std::int32_t, kMaxMatch> last{};
  const std::size_t known = std::min<std::size_t>(whole, kMaxMatch);
  for (std::size_t i = 0; i < known; ++i) last[i] = token(whole - known + i);
  const auto suffix = std::span<const std::int32_t>(last).first(known);
  const auto match = [&](const Index& index, std::span<const std::int32_t> text, std::size_t& end) {
    end = index.find(text, suffix.data() + known - kMinMatch);
    return end > 0 ? match_backwards(text, end, suffix) : 0;
  };
  std::size_t end = 0, predicted_end = 0;
  const int own = match(state.own, slot.tokens, end);
  const int predicted = match(state.predicted, slot.predicted, predicted_end);
  if (std::max(own, predicted) < kMinMatch) return {};
  const bool from_predicted = predicted >= own;
  const std::size_t period = from_predicted ? slot.predicted.size() - predicted_end : whole - end;
  const int count = from_predicted ? std::min(most, static_cast<int>(period)) : most;
  for (int i = 0; i < count; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) % period;
    slot.drafts[drafted + static_cast<std::size_t>(i)] =
        from_predicted ? slot.predicted[predicted_end + at] : token(end + at);
  }
  return {count, class_of(std::max(own, predicted))};
}

Status NgramDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t>) {
  for (DraftSlot* slot : slots) {
    const SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    const std::size_t length = state.continuation.size();
    const int count = state.repeats ? slot->depth : std::min(slot->depth, static_cast<int>(length));
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      slot->drafts[at] = state.continuation[at % length];
      if (slot->rejection) (*slot->proposal)[at].entries.assign(1, {slot->drafts[at], 1.0F});
    }
    slot->drafted = count;
  }
  return {};
}

}  // namespace ft
