// Timeline: the model's memory of one sequence: key/value blocks, convolution rows, recurrent state. It
// changes only through a transaction: begin with m rows, run steps with its segment, commit the first `keep`
// rows. Rejected rows cost nothing:
//   cached keys      dropped by length; those outside of every window are released
//   convolution      dropped by cursor (absolute positions in a ring)
//   recurrent state  a tape of updates that the next step replays
// Owner: one slot of the scheduler or one drafter. Thread: the engine thread. Cost: begin and commit are
// O(blocks added); fork copies one slot's recurrent state and at most one block. Nothing here allocates once
// a timeline has reached its length. Errors: kExhausted when no block or slot is left.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_stream.h"
#include "base/result.h"
#include "program/backend.h"

namespace ft {

/// Rows before the end where a fork may begin, not counting rows that windows hide.
inline constexpr int kForkRoom = kBlockRows;

/// The free blocks and slots of one State. Blocks are reference-counted, because forks share full ones.
class TimelinePool {
 public:
  /// `state` must outlive the pool.
  TimelinePool(State& state, const StateOptions& options);

  int free_blocks() const { return static_cast<int>(free_blocks_.size()); }
  int free_slots() const { return static_cast<int>(free_slots_.size()); }
  /// Blocks whose windowed part a timeline may hold at once, with `rows` in a transaction; 0: none.
  static int window_blocks(const SlidingWindowPart& part, int rows);
  /// Free blocks and slots hold no memory until they are used again. Between two steps; one system call each.
  void release_unused() const { state_.release_unused(free_blocks_, free_slots_); }

 private:
  friend class Timeline;
  friend class Txn;
  Error full() const;
  Result<std::int32_t> take_block();
  void share_block(std::int32_t block, bool window);
  void drop_block(std::int32_t block, bool window);
  void drop_window(std::int32_t block);
  bool has_windows() const { return window_.positions > 0; }
  std::int64_t outside_windows(std::int64_t length) const;

  State& state_;
  SlidingWindowPart window_;
  std::vector<std::int32_t> free_blocks_, free_slots_;
  std::vector<int> owners_, window_owners_;  // [blocks]
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

  /// The rows of this transaction for a step. After this call the step may have run.
  Segment segment() { return part(0, rows_); }
  /// Only rows [first, first + rows), for programs without recurrent state that run a transaction in parts.
  Segment part(int first, int rows);
  int rows() const { return rows_; }

  /// Keeps the first `keep` rows after the step has run: confirmed <= keep <= rows.
  void commit(int keep);
  /// Ends the transaction after a step that failed or never ran. If it may have run, the timeline is lost.
  void rollback();

 private:
  friend class Timeline;
  Txn(Timeline& timeline, int rows, int confirmed)
      : timeline_(&timeline), rows_(rows), confirmed_(confirmed) {}

  Timeline* timeline_;  // null after the end
  int rows_, confirmed_;
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

  /// Number of committed rows, which is the position of the next row.
  std::int64_t length() const { return length_; }
  bool lost() const { return lost_; }
  /// The minimum length that fork() can take: rows before it are in the recurrent state for good, or a window
  /// would need keys that are released.
  std::int64_t min_fork_length() const;
  /// The blocks of its key/value cache, in order; some after length() may only be reserved.
  std::span<const std::int32_t> blocks() const { return blocks_; }
  /// The blocks among them that keep their windowed part; none if the State has no such part.
  std::span<const std::int32_t> window_blocks() const;

  /// Reserves memory for the block list of `positions`, so that no begin() up to there allocates.
  void reserve(std::int64_t positions) {
    blocks_.reserve(static_cast<std::size_t>(positions / kBlockRows) + 1);
  }

  /// rows >= 1, 0 <= confirmed <= rows, rows - confirmed <= kMaxTapeRows. Reserves blocks for
  /// all rows.
  Result<Txn> begin(int rows, int confirmed);

  /// A second timeline with the first `length` rows of this one's past, min_fork_length() <= length
  /// <= length(). The original must have no open transaction and must not be lost.
  Result<Timeline> fork(std::int64_t length) const;
  Result<Timeline> fork() const { return fork(length_); }
  /// Makes `copy`, of the same pool, the same fork in place of its contents: it keeps its slot, and nothing
  /// is allocated if it has reserve()d as much. After an error it is empty.
  Status fork_into(Timeline& copy, std::int64_t length) const;
  /// Clears everything, including the mark that it was lost. No transaction may be open.
  void clear();

  /// A kind of rows of a timeline. Row r is a function of the first r + 1 + `ahead` tokens of the sequence,
  /// the program, and everything that `kind` names.
  struct Rows {
    std::string_view kind;
    std::int64_t ahead = 0;
  };
  /// Rows of full blocks that a sink may store once for all sequences that have them, kSharedRows at a time.
  static constexpr std::int64_t kSharedRows = 512;
  static_assert(kSharedRows % kBlockRows == 0);

  /// Writes the whole timeline as bytes that only the same program on the same backend can read. Any thread
  /// may call it while no other one changes the timeline. False on a short write.
  bool write_to(ByteSink& sink, const Rows& rows) const;
  /// Reads what write_to() wrote into new blocks and a new slot: kCorrupt if the bytes are not a timeline,
  /// kExhausted without room.
  static Result<Timeline> read_from(TimelinePool& pool, ByteSource& source, const Rows& rows);

 private:
  friend class Txn;
  Timeline(TimelinePool& pool, std::int32_t slot) : pool_(&pool), slot_(slot) {}
  void release();
  void release_windows();

  TimelinePool* pool_;
  std::int32_t slot_;
  std::vector<std::int32_t> blocks_;
  std::size_t released_ = 0;  // first blocks without their windowed part
  std::int64_t length_ = 0;
  std::int32_t replay_ = 0;
  std::int32_t tape_ = 0;
  bool open_ = false;
  bool lost_ = false;
};

}  // namespace ft
