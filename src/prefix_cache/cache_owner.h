// Owners of snapshots, and which hits a caller sees. A snapshot serves every key's prompts, unless CacheShare
// restricts it, but a caller sees a hit only if it owns the snapshot, that is, if it computed or continued
// it. So the numbers do not reveal the texts of another key. The time that a prompt takes does reveal them,
// except with kNone.
//   CacheUser    the caller that looks up and stores, by SlotOptions::owner
//   OwnerSet     the owners of one snapshot
//   CacheLedger  the counts of each owner, as if it had a separate cache
// Thread: CacheLedger any; the others as their owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "prefix_cache/cache_report.h"

namespace ft {

enum class CacheShare {
  kSpeed,  // snapshots serve every key; a hit of another key's counts as computed in the caller's reports
  kKeys,   // snapshots serve everybody, and every hit is shown
  kNone,   // a snapshot serves its owner alone, also in time
};

struct CacheUser {
  std::uint64_t owner = 0;
  bool sees_all = true;         // every hit is shown
  std::int64_t first_step = 0;  // tokens between the first two snapshots in this user's prompts; 0: none
  bool owns = true;             // false: it stores for nobody, because prompts of others were the reason
};

class OwnerSet {
 public:
  /// An owner beyond this takes the place of the one that was added first, whose hits then count as computed
  /// once more.
  static constexpr std::size_t kMax = 256;

  OwnerSet() = default;
  explicit OwnerSet(std::uint64_t owner) : owners_{owner} {}
  bool has(std::uint64_t owner) const { return std::ranges::find(owners_, owner) != owners_.end(); }
  bool empty() const { return owners_.empty(); }
  bool full() const { return owners_.size() == kMax; }
  std::span<const std::uint64_t> all() const { return owners_; }
  /// False if the owner is already in the set.
  bool add(std::uint64_t owner) {
    if (has(owner)) return false;
    if (full()) owners_.erase(owners_.begin());
    owners_.push_back(owner);
    return true;
  }
  bool remove(std::uint64_t owner) { return std::erase(owners_, owner) > 0; }

 private:
  std::vector<std::uint64_t> owners_;  // [kMax], the newest last
};

/// Keeps a few numbers a key for as long as the program runs.
class CacheLedger {
 public:
  /// `length`: tokens of the prompt that the caller's own snapshots gave.
  void looked_up(std::uint64_t owner, std::int64_t length);
  /// A request left a snapshot that was not the owner's before.
  void stored(std::uint64_t owner);
  /// A snapshot has one more owner.
  void holds(std::uint64_t owner);
  /// A snapshot has one owner fewer, for example because it was evicted.
  void evicted(std::uint64_t owner);
  /// Without sessions, bytes and the disk, which belong to all owners together.
  CacheReport report(std::uint64_t owner) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, CacheReport> counts_;
};

}  // namespace ft
