// What the prefix cache holds and what it saved, as plain numbers: for /metrics and `/v1/cache`.
#pragma once

#include <cstdint>

namespace ft {

/// What the prefix cache holds. A session is one snapshot that no other continues: the end of a conversation.
struct CacheReport {
  bool enabled = false;
  bool whole = true;  // false: of one owner; sessions, bytes and the disk tier are not told
  std::int64_t snapshots = 0, sessions = 0;
  std::int64_t bytes = 0, limit_bytes = 0;  // key/value blocks and states of the snapshots
  std::int64_t lookups = 0, hits = 0;       // of requests
  std::int64_t tokens_saved = 0;            // prompt tokens that were not computed again
  std::int64_t stored = 0, evicted = 0;     // snapshots
  // The disk tier, if there is one.
  bool disk = false;
  std::int64_t disk_files = 0, disk_bytes = 0, disk_limit_bytes = 0, disk_hits = 0, disk_written = 0,
               disk_dropped = 0;
};

}  // namespace ft
