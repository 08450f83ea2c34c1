#include "timeline/timeline.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace ft {

TimelinePool::TimelinePool(State& state, const StateOptions& options)
    : state_(state),
      window_(options.releases_sliding_windows ? state.sliding_window_part() : SlidingWindowPart{}),
      owners_(static_cast<std::size_t>(options.blocks)),
      window_owners_(has_windows() ? owners_.size() : 0) {
  free_blocks_.reserve(static_cast<std::size_t>(options.blocks));
  free_slots_.reserve(static_cast<std::size_t>(options.slots));
  for (int block = options.blocks - 1; block >= 0; --block) free_blocks_.push_back(block);
  for (int slot = options.slots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

Error TimelinePool::full() const {
  return Error{Code::kExhausted, fmt::format("the key/value cache is full ({} blocks of {} positions); raise "
                                             "--context or run fewer requests at once",
                                             owners_.size(), kBlockRows)};
}

Result<std::int32_t> TimelinePool::take_block() {
  if (free_blocks_.empty()) return full();
  const std::int32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  owners_[static_cast<std::size_t>(block)] = 1;
  if (has_windows()) window_owners_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void TimelinePool::share_block(std::int32_t block, bool window) {
  ++owners_[static_cast<std::size_t>(block)];
  if (window && has_windows()) ++window_owners_[static_cast<std::size_t>(block)];
}

/// `window`: the owner that leaves held the windowed part too.
void TimelinePool::drop_block(std::int32_t block, bool window) {
  const bool last = --owners_[static_cast<std::size_t>(block)] == 0;
  if (last) free_blocks_.push_back(block);
  if (!window || !has_windows()) return;
  if (last) {
    window_owners_[static_cast<std::size_t>(block)] = 0;
  } else {
    drop_window(block);
  }
}

void TimelinePool::drop_window(std::int32_t block) {
  if (--window_owners_[static_cast<std::size_t>(block)] == 0) state_.release_sliding_window(block);
}

/// The first blocks of a timeline that neither rows from `length` on nor the kForkRoom rows before them see.
std::int64_t TimelinePool::outside_windows(std::int64_t length) const {
  if (!has_windows()) return 0;
  return std::max<std::int64_t>(0, (length - kForkRoom - window_.positions + 1) / kBlockRows);
}

int TimelinePool::window_blocks(const SlidingWindowPart& part, int rows) {
  if (part.positions == 0) return 0;
  return (part.positions + kForkRoom + rows) / kBlockRows + 2;
}

Result<Timeline> Timeline::open(TimelinePool& pool) {
  if (pool.free_slots_.empty()) {
    return Error{Code::kExhausted,
                 "no free slot for another sequence; wait for one to end or raise the slot count"};
  }
  const std::int32_t slot = pool.free_slots_.back();
  pool.free_slots_.pop_back();
  return Timeline(pool, slot);
}

Timeline::Timeline(Timeline&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      slot_(other.slot_),
      blocks_(std::move(other.blocks_)),
      released_(other.released_),
      length_(other.length_),
      replay_(other.replay_),
      tape_(other.tape_),
      open_(other.open_),
      lost_(other.lost_) {
  FT_ASSERT(!open_);  // a transaction points to its timeline
}

Timeline& Timeline::operator=(Timeline&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  slot_ = other.slot_;
  blocks_ = std::move(other.blocks_);
  released_ = other.released_;
  length_ = other.length_;
  replay_ = other.replay_;
  tape_ = other.tape_;
  open_ = other.open_;
  lost_ = other.lost_;
  FT_ASSERT(!open_);
  return *this;
}

Timeline::~Timeline() { release(); }

void Timeline::release() {
  if (pool_ == nullptr) return;
  clear();
  pool_->free_slots_.push_back(slot_);
  pool_ = nullptr;
}

std::int64_t Timeline::min_fork_length() const {
  const std::int64_t by_state = pool_->state_.slot_bytes() == 0 ? 0 : length_ - replay_;
  if (released_ == 0) return by_state;
  const auto first_kept = static_cast<std::int64_t>(released_) * kBlockRows;
  return std::max(by_state, first_kept + pool_->window_.positions - 1);
}

std::span<const std::int32_t> Timeline::window_blocks() const {
  if (!pool_->has_windows()) return {};
  return std::span(blocks_).subspan(released_);
}

void Timeline::release_windows() {
  const auto outside = static_cast<std::size_t>(pool_->outside_windows(length_));
  for (; released_ < outside; ++released_) pool_->drop_window(blocks_[released_]);
}

Result<Txn> Timeline::begin(int rows, int confirmed) {
  FT_ASSERT(!open_);
  FT_ASSERT(rows >= 1 && confirmed >= 0 && confirmed <= rows && rows - confirmed <= kMaxTapeRows);
  if (lost_) return Error{Code::kInvalid, "this sequence was lost when a step failed; start it again"};
  const auto blocks = static_cast<std::size_t>((length_ + rows + kBlockRows - 1) / kBlockRows);
  // Take all blocks or none: a timeline that cannot grow must not starve the others of the last blocks.
  if (blocks > blocks_.size() + pool_->free_blocks_.size()) return pool_->full();
  while (blocks_.size() < blocks) {
    FT_ASSIGN(const std::int32_t block, pool_->take_block());
    blocks_.push_back(block);
  }
  open_ = true;
  return Txn(*this, rows, confirmed);
}

void Timeline::clear() {
  FT_ASSERT(!open_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) pool_->drop_block(blocks_[i], i >= released_);
  blocks_.clear();
  released_ = 0;
  length_ = replay_ = tape_ = 0;
  lost_ = false;
}

Result<Timeline> Timeline::fork(std::int64_t length) const {
  FT_ASSIGN(Timeline copy, open(*pool_));
  FT_TRY(fork_into(copy, length));
  return copy;
}

Status Timeline::fork_into(Timeline& copy, std::int64_t length) const {
  FT_ASSERT(!open_ && !lost_ && length >= min_fork_length() && length <= length_);
  FT_ASSERT(&copy != this && copy.pool_ == pool_);
  copy.clear();
  const auto full = static_cast<std::size_t>(length / kBlockRows);
  copy.released_ = std::max(released_, static_cast<std::size_t>(pool_->outside_windows(length)));
  for (std::size_t i = 0; i < full; ++i) {
    pool_->share_block(blocks_[i], i >= copy.released_);
    copy.blocks_.push_back(blocks_[i]);
  }
  if (length % kBlockRows != 0) {
    const Result<std::int32_t> block = pool_->take_block();
    if (!block.ok()) {
      copy.clear();
      return block.error();
    }
    copy.blocks_.push_back(*block);
    pool_->state_.copy_block(blocks_[full], *block);
  }
  pool_->state_.copy_slot(slot_, copy.slot_);
  copy.length_ = length;
  copy.replay_ = std::max(0, replay_ - static_cast<std::int32_t>(length_ - length));
  copy.tape_ = tape_;
  return {};
}

Txn::Txn(Txn&& other) noexcept
    : timeline_(std::exchange(other.timeline_, nullptr)),
      rows_(other.rows_),
      confirmed_(other.confirmed_),
      issued_(other.issued_) {}

Txn::~Txn() { FT_ASSERT(timeline_ == nullptr); }

Segment Txn::part(int first, int rows) {
  FT_ASSERT(timeline_ != nullptr && first >= 0 && rows >= 1 && first + rows <= rows_);
  issued_ = true;
  const int confirmed = confirmed_ > first ? confirmed_ - first : 0;
  return Segment{{timeline_->blocks_, timeline_->slot_, timeline_->replay_, timeline_->tape_},
                 timeline_->length_ + first,
                 rows,
                 confirmed < rows ? confirmed : rows};
}

void Txn::commit(int keep) {
  FT_ASSERT(timeline_ != nullptr && issued_ && keep >= confirmed_ && keep <= rows_);
  timeline_->length_ += keep;
  timeline_->replay_ = keep - confirmed_;
  timeline_->tape_ = 1 - timeline_->tape_;
  timeline_->open_ = false;
  timeline_->release_windows();
  timeline_ = nullptr;
}

void Txn::rollback() {
  FT_ASSERT(timeline_ != nullptr);
  timeline_->lost_ = issued_;
  timeline_->open_ = false;
  timeline_ = nullptr;
}

}  // namespace ft
