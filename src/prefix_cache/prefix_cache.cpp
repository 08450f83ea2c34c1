#include "prefix_cache/prefix_cache.h"

#include <algorithm>
#include <array>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ft {
namespace {

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  return XXH3_64bits(tokens.data(), tokens.size_bytes());
}

std::int64_t equal_length(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const std::size_t most = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first - a.begin();
}

std::span<const std::int32_t> from(std::span<const std::int32_t> tokens, std::int64_t begin) {
  return tokens.subspan(static_cast<std::size_t>(begin));
}

}  // namespace

PrefixCache::PrefixCache(const SnapshotRoom& room, std::int64_t limit_bytes, std::vector<CacheTier*> tiers,
                         CacheShare share)
    : limits_(room), limit_bytes_(limit_bytes), tiers_(std::move(tiers)), share_(share) {
  counts_.enabled = enabled();
  counts_.limit_bytes = enabled() ? limit_bytes : 0;
}

PrefixCache::~PrefixCache() = default;

std::int64_t PrefixCache::step_at(std::int64_t place, std::int64_t least) {
  constexpr std::int64_t kShare = 20;
  std::int64_t step = least;
  while (step > 0 && 2 * step * kShare <= place) step *= 2;
  return step;
}

PrefixCache::Node* PrefixCache::child(const Node& node, std::span<const std::int32_t> block) {
  const auto [first, last] = node.children.equal_range(hash_of(block));
  for (auto at = first; at != last; ++at) {
    if (std::ranges::equal(at->second->tokens, block)) return at->second.get();
  }
  return nullptr;
}

PrefixCache::Found PrefixCache::find(std::span<const std::int32_t> prompt, bool drafts, double row_ms,
                                     bool alone, const CacheUser& user) {
  if (!enabled()) return {};
  ++counts_.lookups;
  Found found = search(prompt, drafts, user);
  for (CacheTier* tier : tiers_) {
    if (fetch(*tier, prompt, drafts, found.hit.length, row_ms, alone, user)) {
      found = search(prompt, drafts, user);
    }
  }
  ledger_.looked_up(user.owner, found.shown);
  claim(prompt, found, user);
  if (found.hit.snapshot == nullptr) return found;
  ++counts_.hits;
  counts_.tokens_saved += found.hit.length;
  return found;
}

PrefixCache::Found PrefixCache::search(std::span<const std::int32_t> prompt, bool drafts,
                                       const CacheUser& user) {
  Found found;
  const auto longest = static_cast<std::int64_t>(prompt.size()) - 1;  // the last token is the pending one
  Entries::iterator best = entries_.end();
  const bool shows_all = user.sees_all || share_ != CacheShare::kSpeed;
  const Node* node = &root_of(user.owner);
  for (std::int64_t depth = 0; node != nullptr; depth += kBlockRows) {
    found.shared = depth;
    if (shows_all || node->has_of(user.owner)) found.own = depth;
    for (const Entries::iterator& entry : node->entries) {
      if (drafts && !entry->snapshot->draft) continue;
      const std::int64_t length = std::min(depth + equal_length(entry->tail, from(prompt, depth)), longest);
      if (length < std::max(entry->snapshot->low(), kMinTokens)) continue;
      entry->passed = counts_.lookups;
      if (shows_all || entry->owners.has(user.owner)) found.shown = std::max(found.shown, length);
      if (length <= found.hit.length) continue;
      best = entry;
      found.hit = {entry->snapshot.get(), length};
    }
    if (longest - depth < kBlockRows) break;
    node = child(*node, from(prompt, depth).first(kBlockRows));
  }
  if (best != entries_.end()) use(best);
  return found;
}

/// Loads the tier's rows beyond `known` tokens of the prompt. True if it loaded something.
bool PrefixCache::fetch(CacheTier& tier, std::span<const std::int32_t> prompt, bool drafts,
                        std::int64_t known, double row_ms, bool alone, const CacheUser& user) {
  const auto only = share_ == CacheShare::kNone ? std::optional(user.owner) : std::nullopt;
  for (;;) {
    const std::optional<CacheTier::Match> match = tier.find(prompt, drafts, known, row_ms, alone, only);
    if (!match) return false;
    bool came = false, dropped = false;
    put({match->tokens, drafts, Place::kPrompt, match->owners, &root_of(user.owner)}, [&] {
      Result<Snapshot> snapshot = tier.load(*match);
      came = snapshot.ok();
      dropped = !came && snapshot.error().code == Code::kCorrupt;
      return snapshot;
    });
    if (!dropped) return came;  // otherwise there may be another one
  }
}

void PrefixCache::use(Entries::iterator entry) {
  entries_.splice(entries_.begin(), entries_, entry);
  entry->passed = counts_.lookups;
  for (CacheTier* tier : tiers_) tier->used(entry->file);
}

/// The snapshot that ends where the offer's tokens end, if there is one; it then counts as used.
PrefixCache::Entries::iterator PrefixCache::known(const Offer& offer) {
  const std::span<const std::int32_t> tokens = offer.tokens;
  const auto high = static_cast<std::int64_t>(tokens.size());
  const Node* node = offer.root;
  for (std::int64_t depth = 0; node != nullptr; depth += kBlockRows) {
    for (const Entries::iterator& entry : node->entries) {
      if (entry->snapshot->high() != high || (offer.drafts && !entry->snapshot->draft)) continue;
      if (!std::ranges::equal(entry->tail, from(tokens, depth))) continue;
      use(entry);
      if (entry->place != Place::kParting && offer.place != Place::kWithin) entry->place = offer.place;
      return entry;
    }
    if (high - depth < kBlockRows) break;
    node = child(*node, from(tokens, depth).first(kBlockRows));
  }
  return entries_.end();
}

bool PrefixCache::store(std::span<const std::int32_t> tokens, bool drafts,
                        const std::function<Result<Snapshot>()>& take, Place place, const CacheUser& user) {
  const OwnerSet owners = user.owns ? OwnerSet(user.owner) : OwnerSet();
  const bool stored = put({tokens, drafts, place, owners, &root_of(user.owner), !user.sees_all}, take);
  if (!stored || !user.owns) return false;
  ledger_.stored(user.owner);
  return true;
}

bool PrefixCache::put(const Offer& offer, const std::function<Result<Snapshot>()>& take) {
  const std::span<const std::int32_t> tokens = offer.tokens;
  const auto high = static_cast<std::int64_t>(tokens.size());
  for (CacheTier* tier : tiers_) tier->collect();
  if (!enabled() || high < kMinTokens) return false;
  if (const auto here = known(offer); here != entries_.end()) {
    const bool fresh = own(here, offer.owners);
    to_tiers(*here, offer);  // it may have had no room before
    return fresh && offer.counts_if_owned;
  }
  const std::int64_t blocks = (high + kBlockRows - 1) / kBlockRows;
  const std::int64_t windows = std::min<std::int64_t>(blocks, limits_.window_blocks) * limits_.window_bytes;
  const std::int64_t needed = limits_.snapshot_bytes + blocks * limits_.block_bytes + windows;
  if (blocks > limits_.blocks || needed > limit_bytes_) return false;
  while (static_cast<int>(entries_.size()) >= limits_.snapshots) {
    if (!evict_one(offer.place)) return false;
  }
  Result<Snapshot> snapshot = take();
  while (!snapshot.ok() && snapshot.error().code == Code::kExhausted && evict_one(offer.place))
    snapshot = take();
  if (!snapshot.ok()) return false;
  insert(offer, std::move(*snapshot));
  ++counts_.stored;
  const Snapshot* stored = entries_.front().snapshot.get();
  while (over() && evict_one(offer.place)) continue;
  if (entries_.empty() || entries_.front().snapshot.get() != stored) return false;
  if (over()) return evict(entries_.begin()), false;
  to_tiers(entries_.front(), offer);
  return true;
}

/// Tiers keep snapshots with an owner, unless they lie within a prompt.
void PrefixCache::to_tiers(Entry& entry, const Offer& offer) {
  if (offer.place == Place::kWithin || entry.owners.empty()) return;
  for (CacheTier* tier : tiers_) {
    entry.file = tier->offer(offer.tokens, entry.snapshot, entry.owners);
  }
}

void PrefixCache::insert(const Offer& offer, Snapshot snapshot) {
  const std::int64_t depth = snapshot.low() / kBlockRows * kBlockRows;
  blocks_.add(snapshot.timeline.blocks());
  window_blocks_.add(snapshot.timeline.window_blocks());
  draft_blocks_.add(draft_blocks_of(snapshot));
  const std::span<const std::int32_t> tail = from(offer.tokens, depth);
  Node* node = grow(offer.root, offer.tokens.first(static_cast<std::size_t>(depth)));
  auto kept = std::make_shared<const Snapshot>(std::move(snapshot));
  entries_.push_front(
      {std::move(kept), {}, {}, {tail.begin(), tail.end()}, node, depth, offer.place, counts_.lookups});
  node->entries.push_back(entries_.begin());
  own(entries_.begin(), offer.owners);
}

PrefixCache::Node* PrefixCache::grow(Node* root, std::span<const std::int32_t> path) {
  Node* node = root;
  for (; !path.empty(); path = path.subspan(kBlockRows)) {
    const std::span<const std::int32_t> block = path.first(kBlockRows);
    Node* next = child(*node, block);
    if (next == nullptr) {
      auto fresh = std::make_unique<Node>();
      fresh->parent = node;
      fresh->hash = hash_of(block);
      fresh->tokens.assign(block.begin(), block.end());
      next = fresh.get();
      leaves_ += node->children.empty() && node != root ? 0 : 1;  // a leaf that grows is still one leaf
      ++nodes_;
      node->children.emplace(next->hash, std::move(fresh));
    }
    node = next;
  }
  return node;
}

/// Removes nodes that no snapshot needs, from `node` towards the root.
void PrefixCache::prune(Node* node) {
  while (node->parent != nullptr && node->entries.empty() && node->children.empty()) {
    Node* parent = node->parent;
    const auto [first, last] = parent->children.equal_range(node->hash);
    const auto at = std::find_if(first, last, [&](const auto& pair) { return pair.second.get() == node; });
    parent->children.erase(at);
    --nodes_;
    leaves_ -= parent->children.empty() && parent->parent != nullptr ? 0 : 1;
    node = parent;
  }
}

void PrefixCache::clear() {
  for (CacheTier* tier : tiers_) tier->clear();
  while (!entries_.empty()) evict(std::prev(entries_.end()));
}

std::int64_t PrefixCache::bytes() const {
  constexpr auto kNodeBytes = static_cast<std::int64_t>(sizeof(Node) + kBlockRows * sizeof(std::int32_t));
  return static_cast<std::int64_t>(entries_.size()) * limits_.snapshot_bytes +
         blocks_.used * limits_.block_bytes + window_blocks_.used * limits_.window_bytes +
         draft_blocks_.used * limits_.draft_block_bytes + nodes_ * kNodeBytes;
}

bool PrefixCache::over() const { return !entries_.empty() && (bytes() > limit_bytes_ || blocks_over()); }

CacheReport PrefixCache::report() const {
  CacheReport report = counts_;
  report.snapshots = static_cast<std::int64_t>(entries_.size());
  report.sessions = leaves_;
  for (const auto& [owner, root] : roots_) report.sessions += root.entries.empty() ? 0 : 1;
  report.bytes = bytes();
  return report;
}

}  // namespace ft
