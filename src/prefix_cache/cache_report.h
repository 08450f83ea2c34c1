// The contents and savings of the prefix cache as plain numbers, for /metrics and `/v1/cache`.
#pragma once

#include <cstdint>
#include <optional>

namespace ft {

/// A tier below the snapshots: files in a folder or in the machine's memory.
struct CacheTierReport {
  std::int64_t files = 0;                   // snapshots
  std::int64_t bytes = 0, limit_bytes = 0;  // with the rows that they share
  std::int64_t hits = 0, written = 0, dropped = 0;
};

/// Contents of the prefix cache. A session is a snapshot that no other continues: the end of a conversation.
struct CacheReport {
  bool enabled = false;
  bool whole = true;  // false: of one owner, without sessions, bytes and tiers
  std::int64_t snapshots = 0, sessions = 0;
  std::int64_t bytes = 0, limit_bytes = 0;  // key/value blocks and states of the snapshots
  std::int64_t lookups = 0, hits = 0;       // of requests
  std::int64_t tokens_saved = 0;            // prompt tokens that were not computed again
  std::int64_t stored = 0, evicted = 0;     // snapshots
  std::optional<CacheTierReport> memory;    // in the machine's memory, for a device
  std::optional<CacheTierReport> disk;
};

}  // namespace ft
