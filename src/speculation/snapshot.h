// What a sequence was at some moment, kept to begin others with: the target's timeline, which shares its full
// key/value blocks with its forks, and what the drafter remembers, so that a sequence that begins here drafts
// as well as one that computed everything. It covers every past from low() to high() tokens, since the
// last rows are on the recurrent state's tape: a prompt that differs only in its last few tokens still finds
// it. It must end before its decoder. Cost: one slot of recurrent state, at most one block of each cache.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "drafters/drafter.h"
#include "timeline/timeline.h"

namespace ft {

struct Snapshot {
  Timeline timeline;
  std::unique_ptr<DraftMemory> draft;  // null: of a request whose drafter remembers nothing

  /// All of it, for a decoder of the same state_identity(); any thread may. False if the sink took not all.
  bool write_to(ByteSink& sink) const;

  std::int64_t high() const { return timeline.length(); }
  /// At least 1: nothing is gained by continuing nothing.
  std::int64_t low() const {
    return std::max({std::int64_t{1}, timeline.min_fork_length(), draft ? draft->low() : std::int64_t{1}});
  }
};

/// Where a new slot begins: after the first `length` tokens of `snapshot`, low() <= length <= high(), which
/// are also its prompt's first.
struct PrefixHit {
  const Snapshot* snapshot = nullptr;
  std::int64_t length = 0;
};

}  // namespace ft
