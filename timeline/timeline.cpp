#include "timeline/timeline.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace ft {

TimelinePool::TimelinePool(State& state, const StateOptions& options)
    : state_(state), owners_(static_cast<std::size_t>(options.blocks)) {
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
  return block;
}

void TimelinePool::drop_block(std::int32_t block) {
  if (--owners_[static_cast<std::size_t>(block)] == 0) free_blocks_.push_back(block);
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
  FT_ASSERT(!open_);
  for (const std::int32_t block : blocks_) pool_->drop_block(block);
  blocks_.clear();
  pool_->free_slots_.push_back(slot_);
  pool_ = nullptr;
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

Result<Timeline> Timeline::fork(std::int64_t length) const {
  FT_ASSERT(!open_ && !lost_ && length >= min_fork_length() && length <= length_);
  FT_ASSIGN(Timeline copy, open(*pool_));
  const auto full = static_cast<std::size_t>(length / kBlockRows);
  for (std::size_t i = 0; i < full; ++i) {
    pool_->share_block(blocks_[i]);
    copy.blocks_.push_back(blocks_[i]);
  }
  if (length % kBlockRows != 0) {
    FT_ASSIGN(const std::int32_t block, pool_->take_block());
    copy.blocks_.push_back(block);
    pool_->state_.copy_block(blocks_[full], block);
  }
  pool_->state_.copy_slot(slot_, copy.slot_);
  copy.length_ = length;
  copy.replay_ = std::max(0, replay_ - static_cast<std::int32_t>(length_ - length));
  copy.tape_ = tape_;
  return copy;
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
  timeline_ = nullptr;
}

void Txn::rollback() {
  FT_ASSERT(timeline_ != nullptr);
  timeline_->lost_ = issued_;
  timeline_->open_ = false;
  timeline_ = nullptr;
}

}  // namespace ft
