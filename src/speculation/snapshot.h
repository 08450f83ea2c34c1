// Snapshot: the state of a sequence, kept so that others can begin with it: the target's timeline, which
// shares its full key/value blocks with its forks, and the drafter's memory, so that a sequence that begins
// here drafts as well as one that computed everything. It covers every past from low() to high() tokens,
// because the last rows are on the recurrent state's tape: a prompt that differs only in its last few tokens
// can still use it. It must be destroyed before its decoder. Cost: one slot of recurrent state, at most one
// block of each cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "drafters/drafter.h"
#include "timeline/timeline.h"

namespace ft {

class Assembly;
class Backend;
struct DecoderOptions;
struct Model;
struct Slot;

struct Snapshot {
  Timeline timeline;
  std::unique_ptr<DraftMemory> draft;  // null: of a request whose drafter remembers nothing

  /// Writes all of it, for a decoder of the same state_identity(). Any thread. False on a short write.
  bool write_to(ByteSink& sink) const;

  std::int64_t high() const { return timeline.length(); }
  /// At least 1; an empty prefix is not worth restoring.
  std::int64_t low() const {
    return std::max({std::int64_t{1}, timeline.min_fork_length(), draft ? draft->low() : std::int64_t{1}});
  }
};

/// The start of a new slot: the first `length` tokens of `snapshot`, low() <= length <= high(), which are
/// also the first tokens of the slot's prompt.
struct PrefixHit {
  const Snapshot* snapshot = nullptr;
  std::int64_t length = 0;
};

/// Room for snapshots in addition to the slots, and their cost.
struct SnapshotRoom {
  int snapshots = 0, blocks = 0, draft_blocks = 0;  // at most
  std::int64_t snapshot_bytes = 0;                  // of one, without its blocks
  std::int64_t block_bytes = 0, draft_block_bytes = 0;
  std::int64_t window_bytes = 0;  // of a block's windowed part, not in block_bytes
  int window_blocks = 0;          // such blocks of one snapshot, at most
};
SnapshotRoom plan_snapshots(const Backend& backend, const Model& model, const DecoderOptions& options,
                            int blocks_each);

/// Takes snapshots of an assembly's slots, and reads those that were written.
class Snapshots {
 public:
  explicit Snapshots(const Assembly& assembly) : assembly_(assembly) {}

  /// Takes the slot's state, between two rounds or chunks. kExhausted if there is no room for it; it must
  /// have committed a token and not be lost.
  Result<Snapshot> take(const Slot& slot) const;
  /// Reads what Snapshot::write_to() wrote. kCorrupt for other bytes, kExhausted without room.
  Result<Snapshot> read(ByteSource& source) const;
  const SnapshotRoom& room() const;
  /// Memory that snapshots may hold.
  std::int64_t max_bytes() const;
  /// Names everything but weights that a snapshot's bytes depend on: programs, layouts, arithmetic.
  std::string state_identity() const;

 private:
  const Assembly& assembly_;
};

}  // namespace ft
