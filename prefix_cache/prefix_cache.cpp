#include "prefix_cache/prefix_cache.h"

#include <algorithm>
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

PrefixCache::PrefixCache(const SnapshotRoom& room, std::int64_t limit_bytes, CacheFolder* folder)
    : limits_(room), limit_bytes_(limit_bytes), folder_(folder) {
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
                                     bool alone) {
  if (!enabled()) return {};
  ++counts_.lookups;
  Found found = search(prompt, drafts);
  if (folder_ != nullptr && fetch(prompt, drafts, found.beginning.length, row_ms, alone)) {
    found = search(prompt, drafts);
  }
  if (found.beginning.snapshot == nullptr) return found;
  ++counts_.hits;
  counts_.tokens_saved += found.beginning.length;
  return found;
}

PrefixCache::Found PrefixCache::search(std::span<const std::int32_t> prompt, bool drafts) {
  Found found;
  const auto longest = static_cast<std::int64_t>(prompt.size()) - 1;  // the last token is the pending one
  Entries::iterator best = entries_.end();
  const Node* node = &root_;
  for (std::int64_t depth = 0; node != nullptr; depth += kBlockRows) {
    found.shared = depth;
    for (const Entries::iterator& entry : node->entries) {
      if (drafts && !entry->snapshot->draft) continue;
      const std::int64_t length = std::min(depth + equal_length(entry->tail, from(prompt, depth)), longest);
      if (length < std::max(entry->snapshot->low(), kMinTokens)) continue;
      entry->passed = counts_.lookups;
      if (length <= found.beginning.length) continue;
      best = entry;
      found.beginning = {entry->snapshot.get(), length};
    }
    if (longest - depth < kBlockRows) break;
    node = child(*node, from(prompt, depth).first(kBlockRows));
  }
  if (best != entries_.end()) use(best);
  return found;
}

/// Loads what the folder has beyond `known` tokens of the prompt. True if it loaded something.
bool PrefixCache::fetch(std::span<const std::int32_t> prompt, bool drafts, std::int64_t known, double row_ms,
                        bool alone) {
  for (;;) {
    const std::optional<CacheFolder::Match> match = folder_->find(prompt, drafts, known, row_ms, alone);
    if (!match) return false;
    bool came = false, dropped = false;
    store(match->tokens, drafts, [&] {
      Result<Snapshot> snapshot = folder_->load(*match);
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
  if (folder_ != nullptr) folder_->used(entry->file);
}

/// True if a snapshot that ends where `tokens` end is here; it then counts as used.
bool PrefixCache::known(std::span<const std::int32_t> tokens, bool drafts, Place place) {
  const auto high = static_cast<std::int64_t>(tokens.size());
  const Node* node = &root_;
  for (std::int64_t depth = 0; node != nullptr; depth += kBlockRows) {
    for (const Entries::iterator& entry : node->entries) {
      if (entry->snapshot->high() != high || (drafts && !entry->snapshot->draft)) continue;
      if (!std::ranges::equal(entry->tail, from(tokens, depth))) continue;
      use(entry);
      if (entry->place != Place::kParting && place != Place::kWithin) entry->place = place;
      if (folder_ != nullptr && place != Place::kWithin)
        entry->file = folder_->offer(tokens, entry->snapshot);  // the folder may have had no room before
      return true;
    }
    if (high - depth < kBlockRows) return false;
    node = child(*node, from(tokens, depth).first(kBlockRows));
  }
  return false;
}

bool PrefixCache::store(std::span<const std::int32_t> tokens, bool drafts,
                        const std::function<Result<Snapshot>()>& take, Place place) {
  const auto high = static_cast<std::int64_t>(tokens.size());
  if (folder_ != nullptr) folder_->collect();
  if (!enabled() || high < kMinTokens || known(tokens, drafts, place)) return false;
  const std::int64_t blocks = (high + kBlockRows - 1) / kBlockRows;
  const std::int64_t windows = std::min<std::int64_t>(blocks, limits_.window_blocks) * limits_.window_bytes;
  const std::int64_t needed = limits_.snapshot_bytes + blocks * limits_.block_bytes + windows;
  if (blocks > limits_.blocks || needed > limit_bytes_) return false;
  while (static_cast<int>(entries_.size()) >= limits_.snapshots) {
    if (!evict_one(place)) return false;
  }
  Result<Snapshot> snapshot = take();
  while (!snapshot.ok() && snapshot.error().code == Code::kExhausted && evict_one(place)) snapshot = take();
  if (!snapshot.ok()) return false;
  insert(tokens, std::move(*snapshot));
  entries_.front().place = place;
  ++counts_.stored;
  const Snapshot* stored = entries_.front().snapshot.get();
  while (over() && evict_one(place)) continue;
  if (entries_.empty() || entries_.front().snapshot.get() != stored) return false;
  if (over()) return evict(entries_.begin()), false;
  if (folder_ != nullptr && place != Place::kWithin)
    entries_.front().file = folder_->offer(tokens, entries_.front().snapshot);
  return true;
}

void PrefixCache::insert(std::span<const std::int32_t> tokens, Snapshot snapshot) {
  const std::int64_t depth = snapshot.low() / kBlockRows * kBlockRows;
  blocks_.add(snapshot.timeline.blocks());
  window_blocks_.add(snapshot.timeline.window_blocks());
  draft_blocks_.add(draft_blocks_of(snapshot));
  const std::span<const std::int32_t> tail = from(tokens, depth);
  Node* node = grow(tokens.first(static_cast<std::size_t>(depth)));
  auto kept = std::make_shared<const Snapshot>(std::move(snapshot));
  entries_.push_front(
      {std::move(kept), {}, {tail.begin(), tail.end()}, node, depth, Place::kPrompt, counts_.lookups});
  node->entries.push_back(entries_.begin());
}

PrefixCache::Node* PrefixCache::grow(std::span<const std::int32_t> path) {
  Node* node = &root_;
  for (; !path.empty(); path = path.subspan(kBlockRows)) {
    const std::span<const std::int32_t> block = path.first(kBlockRows);
    Node* next = child(*node, block);
    if (next == nullptr) {
      auto fresh = std::make_unique<Node>();
      fresh->parent = node;
      fresh->hash = hash_of(block);
      fresh->tokens.assign(block.begin(), block.end());
      next = fresh.get();
      leaves_ += node->children.empty() && node != &root_ ? 0 : 1;  // a leaf that grows is still one leaf
      ++nodes_;
      node->children.emplace(next->hash, std::move(fresh));
    }
    node = next;
  }
  return node;
}

/// Removes nodes that no snapshot needs, from `node` towards the root.
void PrefixCache::prune(Node* node) {
  while (node != &root_ && node->entries.empty() && node->children.empty()) {
    Node* parent = node->parent;
    const auto [first, last] = parent->children.equal_range(node->hash);
    const auto at = std::find_if(first, last, [&](const auto& pair) { return pair.second.get() == node; });
    parent->children.erase(at);
    --nodes_;
    leaves_ -= parent->children.empty() && parent != &root_ ? 0 : 1;
    node = parent;
  }
}

void PrefixCache::clear() {
  if (folder_ != nullptr) folder_->clear();
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
  report.sessions = leaves_ + (root_.entries.empty() ? 0 : 1);
  report.bytes = bytes();
  return report;
}

}  // namespace ft
