// Chooses the snapshot that leaves the prefix cache. A conversation has many: the longest one serves its next
// turn, the ones where other conversations diverge serve their prompts, and the rest only a prompt that is
// edited after them. Among the rest, snapshots close to their neighbours go first; whole conversations go in
// order of last use.
#include <algorithm>

#include "prefix_cache/prefix_cache.h"

namespace ft {
namespace {

constexpr int kLooked = 96;  // of the least recently used snapshots are examined
constexpr int kNewest = 2;   // snapshots that are never thinned
constexpr int kHops = 512;   // maximum blocks to a neighbour
constexpr int kIdle = 32;    // lookups after which a conversation without a continuation counts as ended
constexpr double kLittle = 1.0 / 16, kMuch = 0.5;  // of a prompt, computed again
constexpr std::int64_t kRarely = 8;                // turns that continue for each edit far back
constexpr std::int64_t kNone = -1;

std::size_t same(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

bool begins(std::span<const std::int32_t> whole, std::span<const std::int32_t> part) {
  return part.size() <= whole.size() && same(whole, part) == part.size();
}

}  // namespace

void PrefixCache::evict(Entries::iterator entry) {
  blocks_.remove(entry->snapshot->timeline.blocks());
  window_blocks_.remove(entry->snapshot->timeline.window_blocks());
  draft_blocks_.remove(draft_blocks_of(*entry->snapshot));
  Node* node = entry->node;
  std::erase(node->entries, entry);
  while (!entry->owners.empty()) disown(*entry, entry->owners.all().front());
  entries_.erase(entry);
  prune(node);
  ++counts_.evicted;
}

/// Evicts one snapshot for another one. False if all are being written, because their memory would not become
/// free, or if a snapshot within a prompt would displace the end of a conversation that may continue.
bool PrefixCache::evict_one(Place for_place) {
  const Crowded crowded = most_crowded();
  const bool spare = crowded.entry != entries_.end();
  if (blocks_over()) {  // thinning hardly frees blocks
    const auto holder = holder_of_blocks();
    if (holder != entries_.end()) return evict(holder), true;
  }
  if (spare && crowded.loss <= kLittle) return evict(crowded.entry), true;
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {  // the last of those equally long ago
    if (at->snapshot.use_count() > 1) continue;
    if (oldest == entries_.end() || at->passed <= oldest->passed) oldest = at;
  }
  if (oldest == entries_.end()) return false;
  const bool ended = counts_.lookups - oldest->passed > kIdle;
  const auto begin_of = [](const Entry& entry) {
    const Before from = before(entry);
    return from.entry != nullptr ? from.entry->high() : 0;
  };
  const bool cheaper =
      spare && crowded.entry->place == Place::kWithin &&
      (end_after(*crowded.entry) - begin_of(*crowded.entry)) / kRarely < oldest->high() - begin_of(*oldest);
  if (!ended && spare && (crowded.loss <= kMuch || cheaper)) return evict(crowded.entry), true;
  if (!ended && for_place == Place::kWithin) return false;
  return evict(oldest), true;
}

/// The least recently used snapshot with private blocks besides the one that each copies; end(): none.
PrefixCache::Entries::iterator PrefixCache::holder_of_blocks() {
  for (auto at = entries_.end(); at != entries_.begin();) {
    --at;
    if (at->snapshot.use_count() > 1) continue;
    if (blocks_.alone(at->snapshot->timeline.blocks()) > 1 ||
        draft_blocks_.alone(draft_blocks_of(*at->snapshot)) > 1) {
      return at;
    }
  }
  return entries_.end();
}

/// The snapshot whose loss costs least; end() if none has neighbours on both sides.
PrefixCache::Crowded PrefixCache::most_crowded() {
  Crowded best{entries_.end(), 2};
  const int last = std::max(0, static_cast<int>(entries_.size()) - kNewest);
  auto at = entries_.end();
  for (int i = 0; i < std::min(last, kLooked); ++i) {
    --at;
    if (at->snapshot.use_count() > 1 || at->place == Place::kParting) continue;
    if (passed_by(*at)) return {at, 0};
    const std::int64_t after = end_after(*at);
    if (after == kNone) continue;
    const Before from = before(*at);
    if (!from.near) continue;
    const std::int64_t begin = from.entry != nullptr ? from.entry->high() : 0;
    const double loss = static_cast<double>(after - begin) / static_cast<double>(after);
    if (loss < best.loss) best = {at, loss};
  }
  return best;
}

/// The end of an answer that the next prompt did not continue: clients leave out reasoning, and write the
/// rest in their own words. A later prompt has passed through its prompt since.
bool PrefixCache::passed_by(const Entry& answer) {
  if (answer.place != Place::kAnswer) return false;
  const Entry* prompt = before(answer).entry;
  return prompt != nullptr && prompt->passed > answer.passed;
}

/// The longest snapshot of a prefix of the entry's tokens.
PrefixCache::Before PrefixCache::before(const Entry& entry) {
  std::vector<std::int32_t> after = entry.tail;  // tokens of the path from `node` on
  int hops = 0;
  for (const Node* node = entry.node; node != nullptr; node = node->parent) {
    const Entry* best = nullptr;
    for (const Entries::iterator& other : node->entries) {
      if (&*other == &entry || other->high() >= entry.high() || !other->serves(entry)) continue;
      if (best != nullptr && other->high() <= best->high()) continue;
      if (begins(after, other->tail)) best = &*other;
    }
    if (best != nullptr) return {best};
    if (++hops > kHops) return {nullptr, false};
    after.insert(after.begin(), node->tokens.begin(), node->tokens.end());
    after.resize(std::min<std::size_t>(after.size(), 4 * kBlockRows));
  }
  return {};
}

/// The end of the shortest snapshot that continues the entry's tokens. The end of an answer does not count
/// for snapshots before it, because prompts diverge from answers. kNone if there is none, or if sequences
/// diverge after the entry before such an end: then the entry serves both.
std::int64_t PrefixCache::end_after(const Entry& entry) {
  std::span<const std::int32_t> rest = entry.tail;
  const Node* node = entry.node;
  for (int hop = 0; hop < kHops; ++hop) {
    std::int64_t best = kNone;
    for (const Entries::iterator& other : node->entries) {
      if (&*other == &entry) continue;
      if (same(other->tail, rest) < std::min(other->tail.size(), rest.size())) return kNone;
      if (other->high() <= entry.high() || !other->serves(entry)) continue;
      if (other->place == Place::kAnswer && entry.place != Place::kAnswer) continue;
      best = best == kNone ? other->high() : std::min(best, other->high());
    }
    if (node->children.size() > 1) return kNone;
    if (best != kNone || node->children.empty()) return best;
    node = node->children.begin()->second.get();
    if (same(node->tokens, rest) < std::min(node->tokens.size(), rest.size())) return kNone;
    rest = rest.subspan(std::min(node->tokens.size(), rest.size()));
  }
  return kNone;
}

void PrefixCache::BlockUse::add(std::span<const std::int32_t> blocks) {
  for (const std::int32_t block : blocks) {
    const auto at = static_cast<std::size_t>(block);
    if (at >= owners.size()) owners.resize(at + 1);
    used += owners[at]++ == 0 ? 1 : 0;
  }
}

void PrefixCache::BlockUse::remove(std::span<const std::int32_t> blocks) {
  for (const std::int32_t block : blocks) used -= --owners[static_cast<std::size_t>(block)] == 0 ? 1 : 0;
}

std::int64_t PrefixCache::BlockUse::alone(std::span<const std::int32_t> blocks) const {
  return std::ranges::count_if(blocks, [this](std::int32_t block) {
    const auto at = static_cast<std::size_t>(block);
    return at < owners.size() && owners[at] == 1;
  });
}

}  // namespace ft
