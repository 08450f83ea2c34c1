// Owners of the snapshots in the prefix cache.
#include <algorithm>

#include "prefix_cache/prefix_cache.h"

namespace ft {

/// True if one of the owners did not have the snapshot yet.
bool PrefixCache::own(Entries::iterator entry, const OwnerSet& owners) {
  bool added = false;
  for (const std::uint64_t owner : owners.all()) {
    if (entry->owners.has(owner)) continue;
    if (entry->owners.full()) disown(*entry, entry->owners.all().front());
    entry->owners.add(owner);
    added = true;
    ledger_.holds(owner);
    count_owned(entry->node, owner, 1);
    for (CacheTier* tier : tiers_) tier->own(entry->file, owner);
  }
  return added;
}

/// False if it did not belong to the owner.
bool PrefixCache::disown(Entry& entry, std::uint64_t owner) {
  if (!entry.owners.remove(owner)) return false;
  ledger_.evicted(owner);
  count_owned(entry.node, owner, -1);
  return true;
}

/// Only callers with a key see less than everything.
void PrefixCache::count_owned(Node* node, std::uint64_t owner, int more) const {
  if (share_ != CacheShare::kSpeed || owner == 0) return;
  for (; node != nullptr; node = node->parent) {
    auto at = std::ranges::find(node->owned, owner, &std::pair<std::uint64_t, int>::first);
    if (at == node->owned.end()) at = node->owned.insert(at, {owner, 0});
    at->second += more;
    if (at->second == 0) node->owned.erase(at);
  }
}

/// Makes the user an owner of the snapshots that its own prompt would have left up to the hit's end without
/// any other key's snapshots. So a later prompt does not show that they existed.
void PrefixCache::claim(std::span<const std::int32_t> prompt, const Found& found, const CacheUser& user) {
  if (user.sees_all || share_ != CacheShare::kSpeed) return;
  const std::int64_t length = found.hit.length;
  const auto leaves = [&](std::int64_t high) {
    const std::int64_t step = step_at(high, user.first_step);
    return high == found.own || (step > 0 && high % step == 0);
  };
  const Node* node = &root_of(user.owner);
  for (std::int64_t depth = 0; node != nullptr; depth += kBlockRows) {
    const auto rest = prompt.subspan(static_cast<std::size_t>(depth));
    for (const Entries::iterator& entry : node->entries) {
      const std::int64_t high = entry->snapshot->high();
      if (high <= found.shown || high > length || !leaves(high)) continue;
      if (std::ranges::equal(entry->tail, rest.first(static_cast<std::size_t>(high - depth))))
        own(entry, OwnerSet(user.owner));
    }
    if (length - depth < kBlockRows) return;
    node = child(*node, rest.first(kBlockRows));
  }
}

void PrefixCache::clear(std::uint64_t owner) {
  for (CacheTier* tier : tiers_) tier->clear(owner);
  for (const bool unowned : {false, true}) {  // the second pass: snapshots that only unowned prompts continue
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto next = std::next(entry);
      const bool was = disown(*entry, owner);
      if (entry->owners.empty() && (was || (unowned && entry->node->owned.empty()))) evict(entry);
      entry = next;
    }
  }
}

}  // namespace ft
