// A timeline as bytes: length, replay, tape, the number of blocks without their windowed part, then its
// blocks in order and its slot as the State writes them.
#include <algorithm>

#include "timeline/timeline.h"

namespace ft {
namespace {

std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

std::int64_t blocks_of(std::int64_t length) { return (length + kBlockRows - 1) / kBlockRows; }

std::int64_t bytes_of_block(const State& state, bool released) {
  return state.block_bytes() - (released ? state.sliding_window_part().block_bytes : 0);
}

constexpr std::int64_t kSharedBlocks = Timeline::kSharedRows / kBlockRows;

/// Number of blocks that are shared, from the first on and in whole groups: full ones, which no longer change
/// and have the same bytes in every sequence. None of them has the windowed part.
std::int64_t shared_blocks(const State& state, std::int64_t length, std::int64_t released) {
  const std::int64_t full = length / kBlockRows;
  return (state.sliding_window_part().block_bytes > 0 ? std::min(full, released) : full) / kSharedBlocks *
         kSharedBlocks;
}

/// The tokens that decide the rows of the group that begins with `block`.
std::int64_t tokens_of(std::int64_t block, const Timeline::Rows& rows) {
  return (block + kSharedBlocks) * kBlockRows + rows.ahead;
}

}  // namespace

bool Timeline::write_to(ByteSink& sink, const Rows& rows) const {
  const State& state = pool_->state_;
  state.settle();
  if (!put_value(sink, length_) || !put_value(sink, replay_) || !put_value(sink, tape_)) return false;
  if (!put_value(sink, static_cast<std::int64_t>(released_))) return false;
  std::vector<std::byte> bytes(size_of(std::max(state.block_bytes(), state.slot_bytes())));
  const std::int64_t shared = shared_blocks(state, length_, static_cast<std::int64_t>(released_));
  for (std::int64_t i = 0; i < blocks_of(length_); ++i) {
    if (i < shared && i % kSharedBlocks == 0 && !sink.begin_shared(rows.kind, tokens_of(i, rows))) {
      i += kSharedBlocks - 1;
      continue;
    }
    const bool released = i < static_cast<std::int64_t>(released_);
    const auto block_bytes = std::span(bytes).first(size_of(bytes_of_block(state, released)));
    state.read_block(blocks_[size_of(i)], block_bytes);
    if (!sink.put(block_bytes)) return false;
    if (i < shared && i % kSharedBlocks == kSharedBlocks - 1) sink.end_shared();
  }
  const auto slot_bytes = std::span(bytes).first(size_of(state.slot_bytes()));
  state.read_slot(slot_, slot_bytes);
  return sink.put(slot_bytes);
}

Result<Timeline> Timeline::read_from(TimelinePool& pool, ByteSource& source, const Rows& rows) {
  State& state = pool.state_;
  std::int64_t length = 0, released = 0;
  std::int32_t replay = 0, tape = 0;
  const Error unfit{Code::kCorrupt, "its bytes are not a timeline"};
  if (!get_value(source, length) || !get_value(source, replay) || !get_value(source, tape)) return unfit;
  if (!get_value(source, released) || released < 0 || released > pool.outside_windows(length)) return unfit;
  if (length < 0 || replay < 0 || replay > std::min<std::int64_t>(length, kMaxTapeRows) ||
      (tape != 0 && tape != 1)) {
    return unfit;
  }
  if (blocks_of(length) > static_cast<std::int64_t>(pool.free_blocks_.size())) return pool.full();
  FT_ASSIGN(Timeline timeline, open(pool));
  std::vector<std::byte> bytes(size_of(std::max(state.block_bytes(), state.slot_bytes())));
  const std::int64_t shared = shared_blocks(state, length, released);
  for (std::int64_t i = 0; i < blocks_of(length); ++i) {
    if (i < shared && i % kSharedBlocks == 0) source.begin_shared(rows.kind, tokens_of(i, rows));
    const auto block_bytes = std::span(bytes).first(size_of(bytes_of_block(state, i < released)));
    if (!source.get(block_bytes)) return unfit;
    if (i < shared && i % kSharedBlocks == kSharedBlocks - 1) source.end_shared();
    FT_ASSIGN(const std::int32_t block, pool.take_block());
    timeline.blocks_.push_back(block);
    state.write_block(block, block_bytes);
    if (i >= released) continue;
    pool.drop_window(block);
    ++timeline.released_;
  }
  const auto slot_bytes = std::span(bytes).first(size_of(state.slot_bytes()));
  if (!source.get(slot_bytes)) return unfit;
  state.write_slot(timeline.slot_, slot_bytes);
  timeline.length_ = length;
  timeline.replay_ = replay;
  timeline.tape_ = tape;
  return timeline;
}

}  // namespace ft
