#include "drafters/recall.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace ft {

RecallRing::RecallRing(std::size_t tokens)
    : ring_(std::bit_floor(std::max<std::size_t>(tokens, 64)), -1),
      before_(ring_.size(), -1),
      heads_(ring_.size(), -1) {}

std::int64_t RecallRing::bytes_of(std::size_t tokens) {
  return static_cast<std::int64_t>(tokens * (sizeof(std::int32_t) + 2 * sizeof(std::int64_t)));
}

std::size_t RecallRing::hash(const std::int32_t* gram) {
  std::uint64_t mixed = 0;
  for (int i = 0; i < kGram; ++i) mixed = (mixed ^ static_cast<std::uint32_t>(gram[i])) * 0x9E3779B97F4A7C15U;
  return static_cast<std::size_t>(mixed >> 20);
}

/// `before_[p]` belongs to the gram that ends before position p, the place of its continuation.
void RecallRing::append(std::int32_t token) {
  ring_[static_cast<std::size_t>(end_) % ring_.size()] = token;
  ++end_;
  if (end_ < kGram || token < 0) return;
  std::array<std::int32_t, kGram> gram;
  for (int i = 0; i < kGram; ++i) {
    gram[static_cast<std::size_t>(i)] = at(end_ - kGram + i);
    if (gram[static_cast<std::size_t>(i)] < 0) return;
  }
  std::int64_t& head = heads_[hash(gram.data()) % heads_.size()];
  before_[static_cast<std::size_t>(end_) % before_.size()] = head;
  head = end_;
}

/// The number of the text's first tokens that are somewhere in the ring; 0 if fewer than kKnown.
std::size_t RecallRing::known_from(std::span<const std::int32_t> text) const {
  if (text.size() < kKnown) return 0;
  int places = 0;
  for (std::int64_t place = heads_[hash(text.data()) % heads_.size()];
       holds(place - kGram) && places < kMaxPlaces; ++places) {
    std::size_t same = 0;
    while (same < text.size() && holds(place - kGram + static_cast<std::int64_t>(same)) &&
           at(place - kGram + static_cast<std::int64_t>(same)) == text[same])
      ++same;
    if (same >= kKnown) return same;
    if (!holds(place)) break;
    place = before_[static_cast<std::size_t>(place) % before_.size()];
  }
  return 0;
}

void RecallRing::learn(std::span<const std::int32_t> text) {
  append(-1);
  while (!text.empty()) {
    const std::size_t known = known_from(text);
    if (known > static_cast<std::size_t>(kMaxMatch)) {
      // The end of the text is stored again, to keep the context of the tokens after it.
      text = text.subspan(known - static_cast<std::size_t>(kMaxMatch));
      append(-1);
      for (int i = 0; i < kMaxMatch; ++i) append(text[static_cast<std::size_t>(i)]);
      text = text.subspan(static_cast<std::size_t>(kMaxMatch));
      continue;
    }
    append(text.front());
    text = text.subspan(1);
  }
}

/// The number of tokens before `end` that equal the last tokens of the text, at most kMaxMatch.
int RecallRing::match_before(std::int64_t end, std::span<const std::int32_t> text) const {
  int same = 0;
  while (same < kMaxMatch && same < std::ssize(text) && holds(end - 1 - same) &&
         at(end - 1 - same) == text[text.size() - 1 - static_cast<std::size_t>(same)])
    ++same;
  return same;
}

int RecallRing::recall(std::span<const std::int32_t> text, std::vector<std::int32_t>& out,
                       std::size_t most) const {
  out.clear();
  if (text.size() < kGram) return 0;
  std::array<std::int64_t, kMaxPlaces> places;
  std::size_t count = 0;
  int longest = 0;
  std::int64_t place = heads_[hash(text.data() + text.size() - kGram) % heads_.size()];
  for (int seen = 0; seen < 4 * kMaxPlaces && count < places.size() && holds(place - 1); ++seen) {
    const int match = match_before(place, text);
    if (match > longest)
      longest = match, count = 0;  // a longer match counts more than any number of shorter ones
    if (match >= kGram && match == longest) places[count++] = place;
    place = before_[static_cast<std::size_t>(place) % before_.size()];
  }
  if (longest < kGram) return 0;
  double chance = 1;
  for (std::int64_t step = 0; out.size() < most; ++step) {
    std::int32_t best = -1;
    std::size_t votes = 0, voters = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!holds(places[i] + step) || at(places[i] + step) < 0) continue;
      ++voters;
      const std::int32_t token = at(places[i] + step);
      const auto same = static_cast<std::size_t>(std::count_if(
          places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count),
          [&](std::int64_t other) { return holds(other + step) && at(other + step) == token; }));
      if (same > votes) votes = same, best = token;
    }
    if (votes == 0) break;
    chance *= static_cast<double>(votes) / static_cast<double>(voters);
    if (chance < kMinChance) break;
    out.push_back(best);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (holds(places[i] + step) && at(places[i] + step) == best) places[kept++] = places[i];
    }
    count = kept;
  }
  return out.empty() ? 0 : longest;
}

Status RecallDrafter::open(int slot, std::int64_t /*position*/) {
  close(slot);
  slots_[static_cast<std::size_t>(slot)].continuation.reserve(kMaxDraftTokens);
  return {};
}

void RecallDrafter::close(int slot) {
  slots_[static_cast<std::size_t>(slot)].match = 0;
  slots_[static_cast<std::size_t>(slot)].continuation.clear();
}

RecallDrafter::User* RecallDrafter::find(std::uint64_t owner) {
  const auto found = std::ranges::find(users_, owner, &User::owner);
  if (found == users_.end()) return nullptr;
  users_.splice(users_.begin(), users_, found);
  return &users_.front();
}

int RecallDrafter::plan(const DraftSlot& slot) {
  SlotState& state = slots_[static_cast<std::size_t>(slot.id)];
  const User* user = find(slot.owner);
  state.match = user == nullptr ? 0
                                : user->ring.recall(slot.tokens, state.continuation,
                                                    static_cast<std::size_t>(slot.max_depth()));
  if (state.match == 0) state.continuation.clear();
  return static_cast<int>(state.continuation.size());
}

int RecallDrafter::context_class(int slot) const {
  const int match = slots_[static_cast<std::size_t>(slot)].match;
  return match < 6 ? 0 : match < 12 ? 1 : match < 24 ? 2 : 3;
}

double RecallDrafter::first_guess(int context_class) const {
  constexpr double kGuesses[kContextClasses] = {0.3, 0.5, 0.75, 0.85};
  return kGuesses[context_class];
}

Status RecallDrafter::propose(std::span<DraftSlot*> slots, std::span<std::int32_t> /*round_tokens*/) {
  for (DraftSlot* slot : slots) {
    const SlotState& state = slots_[static_cast<std::size_t>(slot->id)];
    slot->drafted = std::min(slot->depth, static_cast<int>(state.continuation.size()));
    for (int i = 0; i < slot->drafted; ++i) {
      const auto at = static_cast<std::size_t>(i);
      slot->drafts[at] = state.continuation[at];
      if (slot->rejection) (*slot->proposal)[at].entries.assign(1, {slot->drafts[at], 1.0F});
    }
  }
  return {};
}

/// Tokens of one user's ring, such that all rings fit.
std::size_t RecallDrafter::ring_tokens() const {
  const std::int64_t each = limit_bytes_ / kUsers;
  return std::bit_floor(static_cast<std::size_t>(std::max<std::int64_t>(0, each / RecallRing::bytes_of(1))));
}

void RecallDrafter::learn(std::span<const std::int32_t> tokens, std::uint64_t owner) {
  if (ring_tokens() < kMinTokens) return;
  ++learnt_;
  User* user = find(owner);
  if (user == nullptr) {
    if (users_.size() >= kUsers) users_.pop_back();
    users_.push_front({owner, RecallRing(ring_tokens())});
    user = &users_.front();
  }
  user->ring.learn(tokens);
}

}  // namespace ft
