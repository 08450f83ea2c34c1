#include "prefix_cache/cache_owner.h"

namespace ft {

void CacheLedger::looked_up(std::uint64_t owner, std::int64_t length) {
  const std::lock_guard lock(mutex_);
  CacheReport& counts = counts_[owner];
  ++counts.lookups;
  counts.hits += length > 0 ? 1 : 0;
  counts.tokens_saved += length;
}

void CacheLedger::stored(std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  ++counts_[owner].stored;
}

void CacheLedger::holds(std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  ++counts_[owner].snapshots;
}

void CacheLedger::evicted(std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  CacheReport& counts = counts_[owner];
  ++counts.evicted;
  --counts.snapshots;
}

CacheReport CacheLedger::report(std::uint64_t owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(owner);
  CacheReport report = found == counts_.end() ? CacheReport() : found->second;
  report.whole = false;
  return report;
}

}  // namespace ft
