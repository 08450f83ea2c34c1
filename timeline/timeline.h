// A timeline is what the model remembers of one sequence: key/value blocks, convolution rows, recurrent
// state. It changes only through a transaction: begin with m rows, run steps with its segment, commit the
// first `keep` rows. What is not kept costs nothing: cached keys by length, convolution by cursor (absolute
// positions in a ring), the recurrent state by a tape of updates that the next step replays. Owner: one slot
// of the scheduler or one drafter. Thread: the engine thread. Cost: begin and commit are O(blocks added);
// fork copies one slot's recurrent state and at most one block. Nothing here allocates once a timeline has
// reached its length. Errors: kExhausted when no block or slot is left.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "program/backend.h"

namespace ft {

/// Which blocks and slots of one State are free. Blocks are counted: forks share full ones.
class TimelinePool {
 public:
  /// `state` must outlive the pool.
  TimelinePool(State& state, const StateOptions& options);

  int free_blocks() const { return static_cast<int>(free_blocks_.size()); }
  int free_slots() const { return static_cast<int>(free_slots_.size()); }

 private:
  friend class Timeline;
  friend class Txn;
  Error full() const;
  Result<std::int32_t> take_block();
  void share_block(std::int32_t block) { ++owners_[static_cast<std::size_t>(block)]; }
  void drop_block(std::int32_t block);

  State& state_;
  std::vector<std::int32_t> free_blocks_, free_slots_;
  std::vector<int> owners_;  // [blocks]
};

class Timeline;

/// One open change of a timeline; commit() or rollback() must end it.
class Txn {
 public:
  Txn(Txn&& other) noexcept;
  Txn& operator=(Txn&&) = delete;
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;
  ~Txn();

  /// The rows of this transaction for a step. Taking a segment means that the step may have run.
  Segment segment() { return part(0, rows_); }
  /// Rows [first, first + rows) alone, for programs without recurrent state that go through a transaction in
  /// pieces.
  Segment part(int first, int rows);
  int rows() const { return rows_; }

  /// Keeps the first `keep` rows, settled <= keep <= rows, after the step has run.
  void commit(int keep);
  /// The step failed or never ran. If it may have run, the timeline is lost.
  void rollback();

 private:
  friend class Timeline;
  Txn(Timeline& timeline, int rows, int settled) : timeline_(&timeline), rows_(rows), settled_(settled) {}

  Timeline* timeline_;  // null once ended
  int rows_, settled_;
  bool issued_ = false;
};

class Timeline {
 public:
  static Result<Timeline> open(TimelinePool& pool);
  Timeline(Timeline&& other) noexcept;
  Timeline& operator=(Timeline&& other) noexcept;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline();

  /// Rows that are committed; the next row has this position.
  std::int64_t length() const { return length_; }
  bool lost() const { return lost_; }
  /// The shortest past that fork(length) can give: what lies before it is in the recurrent state for good.
  std::int64_t settled() const { return pool_->state_.slot_bytes() == 0 ? 0 : length_ - replay_; }
  /// Of its key/value cache, in order; some behind length() may only be reserved.
  std::span<const std::int32_t> blocks() const { return blocks_; }

  /// Memory for the list of blocks of so many positions, so that no begin() up to there allocates.
  void reserve(std::int64_t positions) {
    blocks_.reserve(static_cast<std::size_t>(positions / kBlockRows) + 1);
  }

  /// rows >= 1, 0 <= settled <= rows, rows - settled <= kMaxTapeRows. Reserves blocks for all rows.
  Result<Txn> begin(int rows, int settled);

  /// A second timeline with the first `length` rows of this one's past, settled() <= length <= length(). The
  /// original must have no open transaction and must not be lost.
  Result<Timeline> fork(std::int64_t length) const;
  Result<Timeline> fork() const { return fork(length_); }

  /// All that it is, as bytes that mean something to the same program on the same backend only. Of one that
  /// nobody changes meanwhile; then any thread may. False if the sink took not all.
  bool write_to(ByteSink& sink) const;
  /// What write_to() wrote, in blocks and a slot of its own: kCorrupt if it cannot be that, kExhausted
  /// without room.
  static Result<Timeline> read_from(TimelinePool& pool, ByteSource& source);

 private:
  friend class Txn;
  Timeline(TimelinePool& pool, std::int32_t slot) : pool_(&pool), slot_(slot) {}
  void release();

  TimelinePool* pool_;
  std::int32_t slot_;
  std::vector<std::int32_t> blocks_;
  std::int64_t length_ = 0;
  std::int32_t replay_ = 0;
  std::int32_t tape_ = 0;
  bool open_ = false;
  bool lost_ = false;
};

}  // namespace ft
